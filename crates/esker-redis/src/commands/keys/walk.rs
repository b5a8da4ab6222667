//! Commands that walk over the keys of a database in order. A pattern that begins with plain bytes bounds the walk.

use crate::commands::scan;
use crate::context::Context;
use crate::cursors::Page;
use crate::entry::behind;
use crate::fault::Fault;
use crate::glob;
use crate::model::Kind;
use crate::resp::reply::Reply;
use crate::session::Bounds;

/// The first key behind all that match `pattern`.
fn upper(pattern: &[u8]) -> Option<Vec<u8>> {
    let prefix = glob::literal_prefix(pattern);
    if prefix.len() == pattern.len() {
        // Only the pattern itself matches.
        return Some([prefix, &[0]].concat());
    }
    behind(prefix)
}

pub(super) fn scan(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let cursor = scan::cursor(args[1])?;
    let options = scan::options(&args[2..], true)?;
    let upper = options.pattern.and_then(upper);
    let place = scan::place_of(ctx, cursor)?;
    let lower = place.as_slice().max(options.prefix());
    let (mut found, mut page) = (Vec::new(), Page::new(ctx.cursors, options.count));
    let bounds = Bounds { lower, upper: upper.as_deref() };
    ctx.session().walk(ctx.keys(), bounds, false, &mut |key, entry| {
        if !page.takes(key, &mut found, || ctx.session().may_wait())? {
            return Ok(false);
        }
        let is_of_kind = match options.kind {
            Some(kind) => kind.eq_ignore_ascii_case(Kind::of(&entry)?.name().as_bytes()),
            None => true,
        };
        if is_of_kind && options.wants(key) {
            found.push(key.to_vec());
        }
        Ok(true)
    })?;
    scan::begin_reply(reply, page.next, found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

pub(super) fn keys(ctx: &mut Context<'_>, args: &[&[u8]], reply: &mut Reply) -> Result<(), Fault> {
    let pattern = args[1];
    let upper = upper(pattern);
    let bounds = Bounds { lower: glob::literal_prefix(pattern), upper: upper.as_deref() };
    let (mut found, mut count) = (Reply::new(reply.resp3), 0);
    ctx.session().walk(ctx.keys(), bounds, false, &mut |key, _| {
        if glob::matches(pattern, key) {
            found.bulk(key);
            count += 1;
        }
        Ok(true)
    })?;
    reply.array(count);
    reply.append(found);
    Ok(())
}
