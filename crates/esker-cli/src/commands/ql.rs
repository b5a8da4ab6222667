//! `ql`: runs statements on the tables of the store, or of a server.

use std::time::Duration;

use esker_ql::{Remote, Session};

use crate::args::{Global, Ql};
use crate::exit::{Failure, Outcome};
use crate::ql;

pub(crate) fn run(global: &Global, args: &Ql) -> Outcome {
    let is_of_trees = global.keys.is_some() || global.values.is_some() || global.escapes;
    if is_of_trees || global.tree != "default" {
        return Err(Failure::usage(
            "`esker ql` has tables: --tree, --keys, --values and --escapes are about keys and values of trees",
        ));
    }
    if let Some(url) = &global.url {
        let Some((host, port)) = url.thrift() else {
            return Err(Failure::usage(
                "`esker ql` finds the tables of a server by HBase's Thrift interface: --url thrift://HOST:PORT",
            ));
        };
        let patience = (args.timeout > 0).then(|| Duration::from_secs(u64::from(args.timeout)));
        let tables = Remote::connect(host, port, patience)
            .map_err(|error| Failure::store(format!("cannot reach thrift://{url}: {error}")))?;
        return ql::run(global, Session::new(tables), args);
    }
    let tables = ql::Local::open(global)?;
    let done = ql::run(global, Session::new(tables.clone()), args);
    let closed = tables.close();
    done?;
    Ok(closed?)
}
