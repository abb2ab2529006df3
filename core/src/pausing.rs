//! PAUSE, RESUME.

use crate::effects::Run;
use crate::op::Op;
use crate::pause::{Pause, Side};
use crate::sink::Sink;

impl Run<'_, '_> {
    /// Begins a pause, or makes the one that is on longer; replies its end.
    pub(crate) fn pause(&mut self, side: Side<'_>, for_ms: Option<u64>, reason: &[u8], out: &mut dyn Sink) {
        let now = self.now();
        let old = Pause::on(self.queue.pause(side), now);
        let until = Pause::longer(old, for_ms.map(|ms| now.saturating_add(ms)));
        let kept = old.filter(|_| reason.is_empty()).map(|old| old.reason.clone());
        let pause = Pause { until, reason: kept.unwrap_or_else(|| reason.into()) };
        if self.queue.pause(side) != Some(&pause) {
            self.commit(&Op::Pause { side, pause: Some(pause) });
        }
        out.uint(until.unwrap_or(0));
    }

    /// Ends a pause; whether there was one.
    pub(crate) fn resume(&mut self, side: Side<'_>) -> bool {
        let paused = self.queue.pause(side).is_some();
        if paused {
            self.commit(&Op::Pause { side, pause: None });
        }
        paused
    }
}
