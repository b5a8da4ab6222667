//! HQL's paths of namespaces: `/shop/eu` is the namespace `shop.eu`, and `/` the default one.

/// The namespace that `path` is; if it does not begin with `/`, within the namespace `within`. Empty: the default one.
pub(super) fn resolved(path: &str, within: &str) -> String {
    let outer = if path.starts_with('/') { "" } else { within };
    let parts = std::iter::once(outer).chain(path.split('/')).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(".")
}

/// The names of the namespaces right within `namespace`; empty: of those that are within no other.
pub(super) fn children(namespaces: &[String], namespace: &str) -> Vec<String> {
    let names = namespaces.iter().filter_map(|name| match namespace {
        "" => Some(name.as_str()),
        outer => name.strip_prefix(outer)?.strip_prefix('.'),
    });
    names.filter(|name| !name.contains('.')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{children, resolved};

    #[test]
    fn a_path_is_a_name_with_dots() {
        for (path, within, name) in [
            ("/", "a", ""),
            ("/b", "a", "b"),
            ("/b/c/", "a", "b.c"),
            ("b", "", "b"),
            ("b/c", "a", "a.b.c"),
            ("//b", "a", "b"),
        ] {
            assert_eq!(resolved(path, within), name, "{path} {within}");
        }
    }

    #[test]
    fn children_are_right_within() {
        let names = ["a", "a.b", "a.b.c", "ab.c", "b"].map(str::to_owned);
        assert_eq!(children(&names, ""), ["a", "b"]);
        assert_eq!(children(&names, "a"), ["b"]);
        assert!(children(&names, "b").is_empty());
    }
}
