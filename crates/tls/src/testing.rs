//! Certificates for tests, made by the program `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Certificates in a directory, each `NAME.pem` with `NAME.key`: the authorities `ca` and `other`,
/// `server` of `ca` for this machine's loopback, `client` of `ca`, and `stranger` of `other`.
#[derive(Clone, Debug)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Makes them.
    ///
    /// # Panics
    ///
    /// If there is no `openssl`, or it fails.
    #[must_use]
    pub fn make(dir: &Path) -> Self {
        let names = "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost";
        std::fs::write(dir.join("names"), names).expect("a file can be written");
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        for name in ["ca", "other"] {
            let files = format!("-keyout {name}.key -out {name}.pem");
            openssl(dir, &format!("req -x509 {key} {files} -subj /CN={name} -days 2"));
        }
        for (name, ca) in [("server", "ca"), ("client", "ca"), ("stranger", "other")] {
            let files = format!("-keyout {name}.key -out {name}.csr");
            openssl(dir, &format!("req {key} {files} -subj /CN={name}"));
            let sign = format!("-CA {ca}.pem -CAkey {ca}.key -CAcreateserial -extfile names");
            openssl(dir, &format!("x509 -req -in {name}.csr {sign} -out {name}.pem -days 2"));
        }
        Self { dir: dir.to_owned() }
    }

    /// A certificate.
    #[must_use]
    pub fn pem(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.pem"))
    }

    /// Its key.
    #[must_use]
    pub fn key(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.key"))
    }
}

pub(crate) fn openssl(dir: &Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output();
    let made = made.expect("these tests need openssl");
    assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
}
