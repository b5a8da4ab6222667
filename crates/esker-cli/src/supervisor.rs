//! Tells the supervisor that has started this process (systemd, with `Type=notify`) how far it is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state` to the socket of the variable `NOTIFY_SOCKET`, if there is one. A supervisor that does not listen misses
/// it: the server goes on all the same.
pub(crate) fn tell(state: &str) {
    if let Some(address) = std::env::var_os("NOTIFY_SOCKET").and_then(|name| address(&name)) {
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to_addr(state.as_bytes(), &address)
        });
        if let Err(error) = sent {
            let error = error.to_string();
            tracing::warn!(error = error.as_str(), state, "the supervisor cannot be told");
        }
    }
}

/// The address of a path, or of a name that has no file and begins with `@`.
fn address(name: &OsStr) -> Option<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name).ok();
    }
    SocketAddr::from_pathname(name).ok()
}
