//! The price table of the profiles.

use crate::profile::{Price, Profile, ProfileError};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Prices of a million tokens.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prices {
    input: f64,
    output: f64,
    cached_input: Option<f64>,
    cache_write: Option<f64>,
}

/// Gives each profile the price of its model.
///
/// # Errors
/// A price cannot be used, or no profile has its model.
pub(crate) fn set_prices(
    profiles: &mut BTreeMap<String, Profile>,
    prices: &BTreeMap<String, Prices>,
) -> Result<(), ProfileError> {
    for (model, prices) in prices {
        let mut is_used = false;
        for (name, profile) in profiles.iter_mut().filter(|(_, profile)| profile.model == *model) {
            profile.price = Some(read_price(name, *prices)?);
            is_used = true;
        }
        if !is_used {
            let models: BTreeSet<_> = profiles.values().map(|it| it.model.clone()).collect();
            let (model, known) = (model.clone(), models.into_iter().collect());
            return Err(ProfileError::PriceUnused { model, known });
        }
    }
    Ok(())
}

/// A price of a million tokens, in billionths of the currency for each token.
fn read_price(profile: &str, prices: Prices) -> Result<Price, ProfileError> {
    let nanos = |price: f64| -> Result<u64, ProfileError> {
        if !(0.0..=1_000_000.0).contains(&price) {
            let why =
                "has a price outside 0 to 1,000,000 for a million tokens. Correct it".to_owned();
            return Err(ProfileError::Field { profile: profile.to_owned(), field: "price", why });
        }
        let nanos = (price * 1000.0).round();
        // In range: at most 10^9.
        Ok(format!("{nanos:.0}").parse().unwrap_or_default())
    };
    let input_nanos = nanos(prices.input)?;
    Ok(Price {
        input_nanos,
        cached_input_nanos: prices.cached_input.map_or(Ok(input_nanos), nanos)?,
        cache_write_nanos: prices.cache_write.map_or(Ok(input_nanos), nanos)?,
        output_nanos: nanos(prices.output)?,
    })
}
