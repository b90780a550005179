//! Who anchors verdicts: a time-stamp authority, and the certificate that its time stamps are checked against.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::error::ConfigError;
use super::settings as s;
use crate::domain::timestamp::TsaCertificate;

/// Who anchors verdicts. [`GateAnchorConfig::check`] reads them together.
#[derive(Debug, Clone, Args)]
pub struct GateAnchorConfig {
    /// The time-stamp authority; none turns anchors off.
    #[arg(long = s::GATE_ANCHOR_URL.flag, env = s::GATE_ANCHOR_URL.env, help = s::GATE_ANCHOR_URL.meaning,
          value_parser = s::GATE_ANCHOR_URL.reads::<String>())]
    pub gate_anchor_url: Option<String>,

    /// The authority's certificate.
    #[arg(long = s::GATE_ANCHOR_CERTIFICATE_FILE.flag, env = s::GATE_ANCHOR_CERTIFICATE_FILE.env,
          help = s::GATE_ANCHOR_CERTIFICATE_FILE.meaning,
          value_parser = s::GATE_ANCHOR_CERTIFICATE_FILE.reads::<PathBuf>())]
    pub gate_anchor_certificate_file: Option<PathBuf>,

    /// Seconds between two anchors, 1..86400.
    #[arg(long = s::GATE_ANCHOR_INTERVAL_S.flag, env = s::GATE_ANCHOR_INTERVAL_S.env,
          default_value = s::GATE_ANCHOR_INTERVAL_S.default, help = s::GATE_ANCHOR_INTERVAL_S.meaning,
          value_parser = s::GATE_ANCHOR_INTERVAL_S.reads::<u64>())]
    pub gate_anchor_interval_s: u64,

    /// The folder for anchors.
    #[arg(long = s::GATE_ANCHOR_DIR.flag, env = s::GATE_ANCHOR_DIR.env, help = s::GATE_ANCHOR_DIR.meaning,
          value_parser = s::GATE_ANCHOR_DIR.reads::<PathBuf>())]
    pub gate_anchor_dir: Option<PathBuf>,
}

/// A time-stamp authority, and where its anchors are kept.
#[derive(Debug, Clone)]
pub struct AnchorAuthority {
    /// Its address.
    pub url: String,
    /// The certificate whose key must sign.
    pub certificate: TsaCertificate,
    /// The time between two anchors.
    pub interval: Duration,
    /// The folder for anchors; none keeps them in the database only.
    pub folder: Option<PathBuf>,
}

/// Anchors are on, and a setting is missing.
pub(super) const fn needs(needed: &'static str) -> ConfigError {
    ConfigError::AnchorNeeds { flag: s::GATE_ANCHOR_URL.flag, needed }
}

impl GateAnchorConfig {
    /// The authority, with its certificate read; none where anchors are off.
    ///
    /// # Errors
    /// The certificate's file is missing or holds none for time stamps, or the folder is none.
    pub fn check(&self) -> Result<Option<AnchorAuthority>, ConfigError> {
        let Some(url) = &self.gate_anchor_url else { return Ok(None) };
        let needed = s::GATE_ANCHOR_CERTIFICATE_FILE.flag;
        let path = self.gate_anchor_certificate_file.as_ref().ok_or_else(|| needs(needed))?;
        let unusable = |why: String| ConfigError::AnchorUnusable {
            flag: s::GATE_ANCHOR_CERTIFICATE_FILE.flag,
            path: path.clone(),
            why,
        };
        let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let certificate = TsaCertificate::from_pem(&text);
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        if let Some(folder) = self.gate_anchor_dir.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(ConfigError::AnchorUnusable {
                flag: s::GATE_ANCHOR_DIR.flag,
                path: folder.clone(),
                why: "it is no folder".to_owned(),
            });
        }
        let interval = Duration::from_secs(self.gate_anchor_interval_s);
        let folder = self.gate_anchor_dir.clone();
        Ok(Some(AnchorAuthority { url: url.clone(), certificate, interval, folder }))
    }
}
