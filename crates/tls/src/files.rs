//! The names of the PEM files that TLS needs, and what may be wrong with one.

use std::fmt;
#[cfg(feature = "rustls")]
use std::path::Path;
use std::path::PathBuf;

/// What is wrong with a file or its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFile {
    /// The file; `None` for the system's collection of authorities.
    pub path: Option<PathBuf>,
    /// What is wrong, and what is expected.
    pub why: String,
}

#[cfg(feature = "rustls")]
impl BadFile {
    pub(crate) fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: Some(path.to_owned()), why: why.into() }
    }
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for BadFile {}

/// The PEM files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server's certificate, followed by the intermediate certificates.
    pub cert: PathBuf,
    /// The key of its certificate.
    pub key: PathBuf,
    /// If set, clients must show a certificate of one of these authorities.
    pub client_ca: Option<PathBuf>,
}

/// The PEM files of a client. All are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities to trust. Defaults to those of the system.
    pub ca: Option<PathBuf>,
    /// The client's certificate, followed by the intermediate certificates. Defaults to none.
    pub cert: Option<PathBuf>,
    /// The key of its certificate.
    pub key: Option<PathBuf>,
}
