//! Backups of the store while it is served: `BGSAVE`, `LASTSAVE`. Where they go only the configuration says, so that no
//! client can have files written elsewhere.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use esker::ErrorKind;

use crate::connection::Connection;
use crate::figures::add;
use crate::server::Server;

/// The backups that this server makes.
#[derive(Default)]
pub(crate) struct Backups {
    pub(crate) is_running: Cell<bool>,
    /// Whether the last one failed.
    pub(crate) has_failed: Cell<bool>,
    /// When the newest one was made, also by a server before this one, in seconds since 1970; 0: there is none.
    pub(crate) last_s: Cell<u64>,
    pub(crate) last_took: Cell<Duration>,
    /// When the one began that is under way.
    pub(crate) begun: Cell<Option<Instant>>,
    /// How much was changed before the last one that has succeeded.
    pub(crate) changes: Cell<u64>,
    pub(crate) made: Cell<u64>,
    pub(crate) failed: Cell<u64>,
}

impl Backups {
    /// For this directory. If it cannot be read, there is no backup that anybody could count on, and the log says so.
    pub(crate) fn into(dir: Option<&Path>) -> Backups {
        let found = dir.map(|dir| esker::backups(dir, &esker::Options::default()));
        let newest = match found {
            Some(Ok(mut backups)) => backups.pop(),
            Some(Err(error)) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, "the backups of earlier servers cannot be read");
                None
            }
            Some(Err(_)) | None => None,
        };
        let last_s = newest.map_or(0, |newest| newest.made_us / 1_000_000);
        Backups { last_s: Cell::new(last_s), ..Backups::default() }
    }
}

impl Connection {
    pub(crate) fn bgsave(&mut self, args: &[&[u8]]) {
        let server = &self.server;
        if args.len() > 2 || args.get(1).is_some_and(|word| !word.eq_ignore_ascii_case(b"schedule")) {
            return self.reply.error("ERR syntax error");
        }
        if server.config.backup_dir.is_none() {
            return self.reply.error("ERR there is no directory for backups (backup-dir)");
        }
        if server.backups.is_running.replace(true) {
            return self.reply.error("ERR Background save already in progress");
        }
        tokio::task::spawn_local(back_up(Rc::clone(server)));
        self.reply.simple("Background saving started");
    }
}

/// Copies the store as it is now, and removes the oldest backups.
async fn back_up(server: Rc<Server>) {
    let (backups, begun, begun_s) = (&server.backups, Instant::now(), server.wall_us() / 1_000_000);
    let changes = server.figures.changes.get();
    backups.begun.set(Some(begun));
    let (db, keep) = (server.db.clone(), server.config.backups_kept);
    let dir = server.config.backup_dir.clone().unwrap_or_default();
    let copied = server.pool.run(move || {
        let report = db.backup(&dir)?;
        Ok((report, esker::forget_backups(&dir, keep, &esker::Options::default())))
    });
    let copied = copied.await.and_then(|copied| copied);
    backups.is_running.set(false);
    backups.begun.set(None);
    backups.has_failed.set(copied.is_err());
    match copied {
        Ok((report, forgotten)) => {
            if let Err(error) = forgotten {
                server.reports.failure("remove old backups", &error);
            }
            add(&backups.made, 1);
            backups.changes.set(changes);
            backups.last_s.set(begun_s);
            backups.last_took.set(begun.elapsed());
            let us = begun.elapsed().as_micros() as u64;
            tracing::info!(
                id = report.id,
                bytes = report.bytes,
                copied_bytes = report.copied_bytes,
                us,
                "backup made"
            );
        }
        Err(error) => {
            add(&backups.failed, 1);
            server.reports.failure("backup", &error);
        }
    }
}
