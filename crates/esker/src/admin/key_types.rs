//! How a dump shows keys. The key type of a tree is in its tag, and the manifest holds the tag.

use std::collections::BTreeMap;
use std::path::Path;

use crate::env::Env;
use crate::version::edit::{Edit, FileId, TableInfo, TreeId};
use crate::version::manifest::{
    Remains, copy_number, copy_path, manifest_number, manifest_path, read_remains,
};

/// The longest part of a key or value that a line shows, in bytes.
const SHOWN_MAX: usize = 64;

/// Shows a key of a tree with this tag. If it returns `None`, the key is shown as text with escapes.
pub(super) type ShowKey<'a> = &'a dyn Fn(Option<&str>, &[u8]) -> Option<String>;

pub(super) struct KeyTypes<'a> {
    show: ShowKey<'a>,
    tags: BTreeMap<TreeId, String>,
    tables: BTreeMap<FileId, Vec<(TreeId, TableInfo)>>,
}

impl<'a> KeyTypes<'a> {
    /// Takes the tags from the edits of a manifest.
    pub(super) fn of_edits<'e>(show: ShowKey<'a>, edits: impl Iterator<Item = &'e Edit>) -> KeyTypes<'a> {
        let tags = edits.filter_map(|edit| match edit {
            Edit::SetTag { tree, tag } => Some((*tree, tag.clone())),
            _ => None,
        });
        KeyTypes { show, tags: tags.collect(), tables: BTreeMap::new() }
    }

    /// Takes the tags from the manifest in the directory of `file`, as far as it can be read.
    pub(super) fn beside(show: ShowKey<'a>, env: &Env, file: &Path) -> KeyTypes<'a> {
        let mut known = KeyTypes { show, tags: BTreeMap::new(), tables: BTreeMap::new() };
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let names = env.fs.list(dir).unwrap_or_default();
        let numbers = names.iter().filter_map(|name| manifest_number(name).or_else(|| copy_number(name)));
        let Some(number) = numbers.max() else { return known };
        let mut paths = vec![manifest_path(dir, number), copy_path(dir, number)];
        paths.retain(|path| env.fs.exists(path).unwrap_or(false));
        let (Remains::Whole(state) | Remains::Prefix(state)) = read_remains(env, &paths, 0, &mut Vec::new())
        else {
            return known;
        };
        let tags = state.trees.iter().filter_map(|(id, record)| Some((*id, record.tag.clone()?)));
        known.tags = tags.collect();
        for ((tree, _, file), info) in state.tables {
            known.tables.entry(file).or_default().push((tree, info));
        }
        known
    }

    pub(super) fn key(&self, tree: TreeId, key: &[u8]) -> String {
        self.tagged(self.tags.get(&tree).map(String::as_str), key)
    }

    /// A key of table `file`, as text. If several trees share the table, the number of its tree comes first.
    pub(super) fn key_in(&self, file: Option<FileId>, key: &[u8]) -> String {
        let users = file.and_then(|file| self.tables.get(&file)).map_or(&[][..], Vec::as_slice);
        let found = users.iter().find_map(|(tree, info)| {
            let own = info.strip(key)?;
            (info.smallest.as_slice() <= own && own <= info.largest.as_slice()).then_some((tree, info, own))
        });
        match found {
            Some((tree, info, own)) if info.prefix.is_some() => {
                format!("tree {tree} {}", self.key(*tree, own))
            }
            Some((tree, _, own)) => self.key(*tree, own),
            None => self.tagged(None, key),
        }
    }

    fn tagged(&self, tag: Option<&str>, key: &[u8]) -> String {
        let Some(mut text) = (self.show)(tag, key) else { return shown(key) };
        let cut = text.char_indices().nth(2 * SHOWN_MAX).map(|(at, _)| at);
        if let Some(at) = cut {
            text.truncate(at);
            text.push_str(&format!("... ({} bytes)", key.len()));
        }
        text
    }
}

/// Bytes as text. Bytes that are not printable are escaped.
pub(super) fn shown(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(SHOWN_MAX)];
    let more = if part.len() < bytes.len() { format!("... ({} bytes)", bytes.len()) } else { String::new() };
    let mut text = String::new();
    for chunk in part.utf8_chunks() {
        text.extend(chunk.valid().escape_debug());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    format!("\"{text}\"{more}")
}
