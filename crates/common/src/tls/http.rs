//! Clients of HTTP addresses outside of the project.

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::crypto::ring;

/// A builder of an HTTP client that follows no redirect, because what a request carries is for its address only.
pub fn http_client() -> ClientBuilder {
    // The library takes the provider of the process. One that another part has installed is equivalent.
    drop(ring::default_provider().install_default());
    Client::builder().redirect(Policy::none())
}
