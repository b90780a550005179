//! What a worker sends of a call before its result: parts of the output, and reports of progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::problem::{Code, Problem};

/// The largest output of a call.
pub(super) const MAX_OUTPUT: usize = 64 << 20;
/// The largest part of one.
const MAX_CHUNK: usize = 256 << 10;
/// The most bytes of outputs that a process keeps until their results arrive.
const MAX_BUFFERED: usize = 256 << 20;
/// The reports of progress of one call that are accepted in a second.
const REPORTS: u32 = 10;

/// The parts of an output, in their order.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    data: Vec<u8>,
    /// What all outputs of the process take; set with the first part.
    buffered: Option<Arc<AtomicUsize>>,
    /// Why a part was refused. The parts behind it were under way before the worker could know.
    broken: Option<Fault>,
    /// Whether a result with these parts was refused. The worker may send it again with its parts or without.
    is_refused: bool,
}

impl Chunks {
    /// Adds a part. A refused one takes all parts before it away, and those behind it are dropped up to the result.
    /// The first part after a refused result begins the output anew.
    ///
    /// # Errors
    /// `too_large` for a part or an output that is too large, `overloaded` while the process keeps too much.
    pub(super) fn add(&mut self, part: &[u8], buffered: &Arc<AtomicUsize>) -> Result<(), Fault> {
        if self.broken.is_some() {
            return Ok(());
        }
        if self.is_refused {
            *self = Self::default();
        }
        let refused = if part.len() > MAX_CHUNK {
            let message = format!("has {} bytes; send at most {MAX_CHUNK} at a time", part.len());
            Some(Problem::at(Code::TooLarge, "output.data", message).into())
        } else if self.data.len() + part.len() > MAX_OUTPUT {
            let message = format!(
                "makes the output larger than {MAX_OUTPUT} bytes; the parts are forgotten, send a shorter output"
            );
            Some(Problem::at(Code::TooLarge, "output.data", message).into())
        } else if buffered.load(Ordering::Relaxed) + part.len() > MAX_BUFFERED {
            let message = "the executor keeps too many outputs of workers at the moment; the parts are forgotten, \
                           send them again later";
            Some(Fault::new(FaultCode::Overloaded, message))
        } else {
            None
        };
        if let Some(fault) = refused {
            *self = Self::default();
            self.broken = Some(fault.clone());
            return Err(fault);
        }
        self.buffered.get_or_insert_with(|| Arc::clone(buffered));
        buffered.fetch_add(part.len(), Ordering::Relaxed);
        self.data.extend_from_slice(part);
        Ok(())
    }

    /// The bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The parts that belong to a result. A result that `needs_output` is refused where a part was, because the
    /// parts that are left are not its output.
    ///
    /// # Errors
    /// The refusal of the part.
    pub(super) fn take(&mut self, needs_output: bool) -> Result<Self, Fault> {
        let taken = std::mem::take(self);
        match &taken.broken {
            Some(fault) if needs_output => Err(fault.clone()),
            Some(_) => Ok(Self::default()),
            None => Ok(taken),
        }
    }

    /// The parts of a result that was refused.
    pub(super) fn refused(mut self) -> Self {
        self.is_refused = true;
        self
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        if let Some(buffered) = &self.buffered {
            buffered.fetch_sub(self.data.len(), Ordering::Relaxed);
        }
    }
}

/// The reports of progress of a call.
#[derive(Debug)]
pub(super) struct Reports {
    since: Instant,
    count: u32,
    /// The last one that is not stored.
    last: Option<(String, Option<i16>)>,
}

impl Reports {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), count: 0, last: None }
    }

    /// Takes a report; of those that wait to be stored the last one counts.
    ///
    /// # Errors
    /// `progress_limit`
    pub(super) fn add(&mut self, message: String, percent: Option<i16>) -> Result<(), Fault> {
        if self.since.elapsed() >= Duration::from_secs(1) {
            (self.since, self.count) = (Instant::now(), 0);
        }
        self.count += 1;
        if self.count > REPORTS {
            let message =
                format!("more than {REPORTS} reports of progress came in a second; send fewer");
            return Err(Fault::new(FaultCode::ProgressLimit, message));
        }
        self.last = Some((message, percent));
        Ok(())
    }

    /// The last report that is not stored.
    pub(super) fn take(&mut self) -> Option<(String, Option<i16>)> {
        self.last.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_in_order_and_a_refused_one_takes_them_away() {
        let buffered = Arc::new(AtomicUsize::new(0));
        let mut chunks = Chunks::default();
        chunks.add(b"one ", &buffered).unwrap();
        chunks.add(b"two", &buffered).unwrap();
        assert_eq!(chunks.bytes(), b"one two");
        assert_eq!(buffered.load(Ordering::Relaxed), 7);
        assert!(chunks.add(&vec![0; MAX_CHUNK + 1], &buffered).is_err());
        assert_eq!((chunks.bytes().len(), buffered.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn what_is_left_of_an_output_with_a_refused_part_is_no_output() {
        let buffered = Arc::new(AtomicUsize::new(0));
        let mut chunks = Chunks::default();
        chunks.add(b"one ", &buffered).unwrap();
        assert!(chunks.add(&vec![0; MAX_CHUNK + 1], &buffered).is_err());
        chunks.add(b"three", &buffered).unwrap();
        let refused = chunks.take(true).unwrap_err();
        assert_eq!(refused.reason.as_str(), "too_large");
        chunks.add(b"one three", &buffered).unwrap();
        assert_eq!(chunks.take(true).unwrap().bytes(), b"one three");
        assert!(chunks.add(&vec![0; MAX_CHUNK + 1], &buffered).is_err());
        chunks.add(b"tail", &buffered).unwrap();
        assert_eq!(chunks.take(false).unwrap().bytes(), b"");
        assert_eq!(buffered.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_parts_of_a_refused_result_count_once_however_it_is_sent_again() {
        let buffered = Arc::new(AtomicUsize::new(0));
        let mut chunks = Chunks::default();
        chunks.add(b"one ", &buffered).unwrap();
        chunks.add(b"two", &buffered).unwrap();
        let mut chunks = chunks.take(true).unwrap().refused();
        assert_eq!(chunks.bytes(), b"one two", "the result alone");
        chunks.add(b"one ", &buffered).unwrap();
        chunks.add(b"two", &buffered).unwrap();
        assert_eq!(chunks.bytes(), b"one two", "the result with its parts");
        assert_eq!(buffered.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn the_eleventh_report_of_a_second_is_refused() {
        let mut reports = Reports::new();
        let passed = (0..20).filter(|at| reports.add(at.to_string(), None).is_ok()).count();
        assert_eq!(passed, 10);
        assert_eq!(reports.take(), Some(("9".to_owned(), None)));
        assert_eq!(reports.take(), None);
    }
}
