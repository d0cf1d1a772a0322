//! Why a server does not start, in words that say what to do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

use lockspan_tls::BadFile;

use crate::advice;
use crate::config::Address;
use crate::lock_holder::LockHolder;
use crate::users::BadUsers;

/// Why a server did not start. Nothing of it runs then.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An option has a value that is not allowed.
    Option {
        /// Its name.
        option: &'static str,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// An address beyond this machine, without what protects it there.
    NotLoopback {
        /// Which.
        address: Address,
        /// There is no TLS.
        no_tls: bool,
        /// There are no users.
        no_users: bool,
    },
    /// A certificate or a key can't be used.
    Tls(BadFile),
    /// The file of users can't be used.
    Users(BadUsers),
    /// Could not listen there.
    Listen {
        /// Where.
        address: Address,
        /// Why not.
        why: io::Error,
    },
    /// The page is asked for on an address beyond this machine.
    HttpNotLoopback(SocketAddr),
    /// Could not listen there for browsers.
    Http {
        /// Where.
        at: SocketAddr,
        /// Why not.
        why: io::Error,
    },
    /// A living server listens on that socket file.
    SocketInUse {
        /// The socket file.
        path: PathBuf,
        /// The process that has locked the file beside it, if that is why and it is known.
        holder: Option<LockHolder>,
    },
    /// Every user of the machine could put a socket in the place of the server's.
    SocketReplaceable {
        /// The directory of the socket file.
        dir: PathBuf,
        /// The mode of the directory.
        mode: String,
    },
    /// There is a file of that name, and it is no socket.
    NotASocket(PathBuf),
    /// Another server uses the data directory, or a process of another user keeps it locked.
    DataInUse {
        /// The file that is locked.
        lock: PathBuf,
        /// The process that has locked it, if that is known.
        holder: Option<LockHolder>,
    },
    /// The data directory can't be used.
    Data {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: io::Error,
    },
    /// The data file is damaged, or is not one of ours.
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The directory is that of an earlier development version, whose files are not read any more.
    OldData(PathBuf),
    /// A thread could not be started.
    Thread(io::Error),
}

/// What to do without the data file; `docs/operating.md` says the same.
const START_ANEW: &str = "Don't restore it from a backup. Wait until every lease has expired \
                          (max-lease and a tenth of it: 66 s if max-lease is 60s), reset the \
                          highest fencing token in your stores, since tokens start again from the \
                          beginning, move the whole directory away, and start with an empty one";

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { option, why } => write!(f, "{option}: {why}"),
            Self::NotLoopback { address, no_tls, no_users } => {
                let missing = match (no_tls, no_users) {
                    (true, false) => "there is no TLS: set tls-cert and tls-key",
                    (false, true) => "there are no users: set users to a file with users",
                    _ => "there is neither TLS nor any user: set tls-cert, tls-key and users",
                };
                write!(
                    f,
                    "listen: {address} can be reached from other machines, and {missing}. Or \
                     listen on 127.0.0.1, [::1] or unix:<path>. The option insecure allows it \
                     anyway; then anyone who reaches the address can read the traffic, and take \
                     and break every lock"
                )
            }
            Self::Tls(why) => write!(f, "tls: {why}"),
            Self::Users(why) => write!(f, "users: {why}"),
            Self::Listen { address, why } => {
                write!(f, "listen: {}", advice::listening(address, why))
            }
            Self::HttpNotLoopback(at) => write!(
                f,
                "http: {at} can be reached from other machines, and the page is not encrypted. Use \
                 127.0.0.1 or [::1], and open the page from other machines through an SSH tunnel \
                 (ssh -L)"
            ),
            Self::Http { at, why } => write!(
                f,
                "http (page and metrics): {} with --http, or turn them off with --http none",
                advice::tcp(at, why)
            ),
            Self::SocketInUse { path, holder: None } => write!(
                f,
                "listen: a running server listens on {}. Stop it, or choose another path",
                path.display()
            ),
            Self::SocketInUse { path, holder: Some(holder) } => {
                let path = path.display();
                write!(f, "listen: {holder} has locked {path}.lock")?;
                f.write_str(match holder {
                    ours if ours.may_be_server() => {
                        ", and listens there. Stop it, or choose another path"
                    }
                    theirs if theirs.is_foreign() => {
                        ", and is not a server of this user. Stop it, or choose a path in a \
                         directory that only this user can write to"
                    }
                    _ => {
                        ". To find that process, run fuser -v as root. Stop it, or choose another \
                         path"
                    }
                })
            }
            Self::SocketReplaceable { dir, mode } => write!(
                f,
                "listen: every user may write to {0} ({mode}) and could replace the server's \
                 socket. Remove that permission (chmod o-w {0}), or choose a path in a directory \
                 that only this user can write to",
                dir.display()
            ),
            Self::NotASocket(path) => write!(
                f,
                "listen: {} already exists and is not a socket. Move it away, or choose another \
                 path",
                path.display()
            ),
            Self::DataInUse { lock, holder } => {
                match holder {
                    Some(holder) => write!(f, "data-dir: {holder} has locked {}", lock.display())?,
                    None => write!(f, "data-dir: a process has locked {}", lock.display())?,
                }
                f.write_str(match holder {
                    Some(holder) if holder.may_be_server() => {
                        ", probably another server. Stop it, or choose another directory for this \
                         server"
                    }
                    Some(holder) if holder.is_foreign() => {
                        ", and is not a server of this user: it opened the file when other users \
                         could. The data are not damaged. Stop that process, and start again with \
                         the same directory"
                    }
                    _ => {
                        ". To find that process, run fuser -v as root. The data are not damaged. \
                         Stop that process, and start again with the same directory"
                    }
                })
            }
            Self::Data { path, why } => {
                write!(f, "data-dir: {}", advice::data(path, why))
            }
            Self::Damaged { path, why } => {
                write!(f, "data-dir: {}: {why}. {START_ANEW}", path.display())
            }
            Self::OldData(path) => write!(
                f,
                "data-dir: {} was written by an earlier development version, which this version \
                 can't read. {START_ANEW}",
                path.display()
            ),
            Self::Thread(why) => write!(f, "can't start a thread: {why}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { why, .. }
            | Self::Http { why, .. }
            | Self::Data { why, .. }
            | Self::Thread(why) => Some(why),
            _ => None,
        }
    }
}
