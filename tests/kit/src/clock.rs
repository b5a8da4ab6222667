//! A store that a machine whose clock was ahead has written to. Macros, because this package does not know the engine: they are for
//! tests of packages that depend on `esker`.

/// Makes the store in the directory `$store`, and writes `$value` under `$key`, which lives for `$ttl`, while the machine's clock is
/// 30 years ahead. Then closes the store. Its own clock is ahead of the machine's from then on.
#[macro_export]
macro_rules! write_with_the_clock_ahead {
    ($store:expr, $key:expr, $value:expr, $ttl:expr) => {{
        use esker::env::{Clock, Env};

        #[derive(Debug)]
        struct Ahead(Env);

        impl Clock for Ahead {
            fn wall_us(&self) -> u64 {
                self.0.clock.wall_us() + 30 * 8766 * 3_600_000_000
            }

            fn monotonic_us(&self) -> u64 {
                self.0.clock.monotonic_us()
            }

            fn sleep(&self, duration: core::time::Duration) {
                self.0.clock.sleep(duration);
            }
        }

        let env = Env { clock: std::sync::Arc::new(Ahead(Env::system())), ..Env::system() };
        let db = esker::Db::open($store, esker::Options::default().env(env)).unwrap();
        db.default_tree().put_for($key, $value, $ttl).unwrap();
        db.close().unwrap();
    }};
}

/// The least offset, in microseconds, of the clock of a store that [`write_with_the_clock_ahead`] has made.
pub const AHEAD_MIN_US: u64 = 29 * 8766 * 3_600_000_000;
