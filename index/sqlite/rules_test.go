package sqlite_test

import (
	"testing"

	"github.com/openbot-build/openbot-go/index/indextest"
)

// The rules of the Store contract are proven by the topics of the contract
// suite, so that every store proves the same; here each number names its topic.

func TestRule_CrawlerF1_HostIsTheLease(t *testing.T) {
	t.Parallel()
	t.Run("leases", func(t *testing.T) { indextest.Leases(t, open) })
	t.Run("due times", func(t *testing.T) { indextest.DueTimes(t, open) })
}

func TestRule_CrawlerF2_LeaseEndsByTime(t *testing.T) {
	t.Parallel()
	indextest.Leases(t, open)
}

func TestRule_CrawlerF3_LateVisitIsFencedWhole(t *testing.T) {
	t.Parallel()
	indextest.Fences(t, open)
}

func TestRule_CrawlerF4_OneTransactionAVisit(t *testing.T) {
	t.Parallel()
	t.Run("atomicity", func(t *testing.T) { indextest.Atomicity(t, open) })
	t.Run("fences", func(t *testing.T) { indextest.Fences(t, open) })
}

func TestRule_CrawlerP6_SharesByClass(t *testing.T) {
	t.Parallel()
	indextest.Shares(t, open)
}

func TestRule_CrawlerA1_NewHostsOfADomain(t *testing.T) {
	t.Parallel()
	t.Run("limits", func(t *testing.T) { indextest.Limits(t, open) })
	t.Run("idle", func(t *testing.T) { indextest.Idle(t, open) })
}

func TestRule_CrawlerA2_CardsOnOtherHosts(t *testing.T) {
	t.Parallel()
	t.Run("limits", func(t *testing.T) { indextest.Limits(t, open) })
	t.Run("foreign", func(t *testing.T) { indextest.Foreign(t, open) })
}

func TestRule_CrawlerA3_WhatWasCutIsAnOutcome(t *testing.T) {
	t.Parallel()
	indextest.Limits(t, open)
}

func TestRule_D39_CardsWaitForLaterDays(t *testing.T) {
	t.Parallel()
	t.Run("limits", func(t *testing.T) { indextest.Limits(t, open) })
	t.Run("foreign", func(t *testing.T) { indextest.Foreign(t, open) })
}

func TestRule_IX6_EntryFields(t *testing.T) {
	t.Parallel()
	indextest.Entries(t, open)
}

func TestRule_IX7_WritesComeWithAVisit(t *testing.T) {
	t.Parallel()
	t.Run("atomicity", func(t *testing.T) { indextest.Atomicity(t, open) })
	t.Run("fences", func(t *testing.T) { indextest.Fences(t, open) })
}

func TestRule_IX8_OnlyNewsTakesANumber(t *testing.T) {
	t.Parallel()
	indextest.Entries(t, open)
}

func TestRule_IX9_StatesBecomeChanges(t *testing.T) {
	t.Parallel()
	indextest.States(t, open)
}

func TestRule_IX10_Tombstones(t *testing.T) {
	t.Parallel()
	t.Run("tombstones", func(t *testing.T) { indextest.Tombstones(t, open) })
	t.Run("compaction", func(t *testing.T) { indextest.Compaction(t, open) })
}

func TestRule_IX11_LastStateOnly(t *testing.T) {
	t.Parallel()
	indextest.Feed(t, open)
}

func TestRule_IX12_Reads(t *testing.T) {
	t.Parallel()
	t.Run("snapshots", func(t *testing.T) { indextest.Snapshots(t, open) })
	t.Run("entries", func(t *testing.T) { indextest.Entries(t, open) })
	t.Run("feed", func(t *testing.T) { indextest.Feed(t, open) })
}

func TestRule_IX14_SeqFollowsCommitOrder(t *testing.T) {
	t.Parallel()
	t.Run("feed", func(t *testing.T) { indextest.Feed(t, open) })
	t.Run("race", func(t *testing.T) { indextest.Race(t, open) })
}

func TestRule_IX15_UpdatedAtNeverRunsBackwards(t *testing.T) {
	t.Parallel()
	indextest.Feed(t, open)
}

func TestRule_IX17_MissedTombstone(t *testing.T) {
	t.Parallel()
	indextest.Compaction(t, open)
}

func TestRule_OB135_PingOnceInTenMinutes(t *testing.T) {
	t.Parallel()
	indextest.Pings(t, open)
}

func TestRule_OB130_StatesAreStored(t *testing.T) {
	t.Parallel()
	t.Run("states", func(t *testing.T) { indextest.States(t, open) })
	t.Run("leads", func(t *testing.T) { indextest.Leads(t, open) })
}

func TestRule_OB138_EntryOutcomeAndNextVisitTogether(t *testing.T) {
	t.Parallel()
	t.Run("atomicity", func(t *testing.T) { indextest.Atomicity(t, open) })
	t.Run("fences", func(t *testing.T) { indextest.Fences(t, open) })
}

func TestRule_D35_FrontierAndIndexAreOneStore(t *testing.T) {
	t.Parallel()
	t.Run("atomicity", func(t *testing.T) { indextest.Atomicity(t, open) })
	t.Run("needs", func(t *testing.T) { indextest.Needs(t, open) })
}
