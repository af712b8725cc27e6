package crawl

import (
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// finish gives a document its next time and puts it, its outcome and its news
// into the visit.
func (v *visit) finish(w *work, r result) {
	d := w.doc
	v.stage[d.URL] = done
	v.docs[d.URL] = d
	if w.asked {
		d.CheckedAt = w.now
		if usable(r.reason) || r.reason == index.ReasonNoIndex {
			d.ReadAt = w.now
		}
	}
	switch {
	case r.reason == "":
		d.FaultSince = time.Time{}
	case r.reason != w.was.Fault:
		d.FaultSince = w.now
	}
	d.Fault, d.FaultText = r.reason, cut(r.text, 1000)

	switch {
	case r.failed && w.asked:
		d.Fails = w.was.Fails + 1
	case !r.failed && !r.waiting:
		d.Fails = 0
	}
	d.Class = index.ClassRecheck
	switch {
	case r.waiting:
		d.NextAt = w.now.Add(waitDelay(d.FaultSince, w.now))
		if w.now.Sub(d.FaultSince) < time.Hour {
			d.Class = min(w.was.Class, d.Class)
		}
	case r.failed:
		d.NextAt = v.c.ownTime(d)
		if d.Kind == index.CardDoc && awaitsRemoval(r.reason) {
			d.Class = index.ClassRemoval
		}
	default:
		if w.asked || d.Interval == 0 {
			d.Interval = nextInterval(w.was.Interval, maxAge(d.CacheControl), r.changed)
		}
		d.NextAt = v.c.ownTime(d)
	}
	d.NextAt = earlier(d.NextAt, r.edge)
	if soonest := w.now.Add(minGap); d.NextAt.Before(soonest) {
		d.NextAt = soonest
	}
	if d.NextAt.Before(v.next) {
		d.NextAt = v.next
	}

	// A judgement that came out as before, over nothing that was read anew, is
	// no outcome of its own: the trace of the reading stays the newest.
	if w.asked || r.moved || r.reason != w.was.Fault || r.drop {
		o := index.Outcome{URL: d.URL, At: w.now, Code: r.code, Sentence: cut(r.sentence, 2000), Steps: w.steps, NextAt: d.NextAt}
		if r.drop {
			o.NextAt = time.Time{}
		}
		v.out.Outcomes = append(v.out.Outcomes, o)
		v.kept += weighOutcome(&o)
	}
	if news(w, r) {
		v.out.Wake = append(v.out.Wake, d.URL)
		v.news[d.URL] = len(v.out.Docs)
	}
	if r.drop {
		v.out.Drop = append(v.out.Drop, d.URL)
		return
	}
	out := *d
	if w.stored && out.Hash == w.was.Hash {
		out.Body = nil // the store keeps what it has
	}
	v.kept += weighDoc(&out)
	v.out.Docs = append(v.out.Docs, out)
}

// awaitsRemoval reports whether the next check of a card with this fault may
// remove it, or bring back what asked to be left out (P6).
func awaitsRemoval(reason index.Reason) bool { return removes(reason) || reason == index.ReasonNoIndex }

// removes reports whether a fault removes a card when it is seen a second time,
// a day after the first (D15).
func removes(reason index.Reason) bool {
	return reason == index.ReasonGone || reason == index.ReasonInvalid
}

// news reports whether documents that need this one must be judged anew: its
// content or standing is another than before, or somebody was told to wait
// until it had been read again.
func news(w *work, r result) bool {
	d := w.doc
	return r.changed || r.reason != w.was.Fault || d.NoIndex != w.was.NoIndex ||
		w.was.CheckedAt.IsZero() || d.FinalURL != w.was.FinalURL ||
		w.asked && (w.was.Class <= index.ClassRemoval || removes(r.reason) || w.now.Sub(w.was.NextAt) > overdueFor)
}
