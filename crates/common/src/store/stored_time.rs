//! Times of columns. Postgres has times that this program has not: `infinity`, and years behind 262142. The client's own
//! decoder panics on them.

use super::StoreError;
use chrono::{DateTime, Utc};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Postgres, Type};

/// Microseconds from 1970 to 2000, where Postgres begins to count.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A time as it is stored, in microseconds since 2000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredTime(i64);

impl StoredTime {
    /// The time; none for one that this program has not.
    fn known(self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_micros(self.0.checked_add(POSTGRES_EPOCH)?)
    }

    /// The time, or the nearest that there is: no service stores such a time, so a signature over it does not hold.
    pub(super) fn nearest(self) -> DateTime<Utc> {
        let end = if self.0 < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
        self.known().unwrap_or(end)
    }

    /// The time in a column.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]
    pub(super) fn exact(self, what: impl FnOnce() -> String) -> Result<DateTime<Utc>, StoreError> {
        let outside = || StoreError::corrupt(what(), "the time is infinite, or no calendar has it");
        self.known().ok_or_else(outside)
    }
}

impl From<StoredTime> for DateTime<Utc> {
    fn from(time: StoredTime) -> Self {
        time.nearest()
    }
}

impl Type<Postgres> for StoredTime {
    fn type_info() -> PgTypeInfo {
        <DateTime<Utc> as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for StoredTime {
    fn array_type_info() -> PgTypeInfo {
        <DateTime<Utc> as PgHasArrayType>::array_type_info()
    }
}

impl<'r> Decode<'r, Postgres> for StoredTime {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<Postgres>>::decode(value).map(Self)
    }
}
