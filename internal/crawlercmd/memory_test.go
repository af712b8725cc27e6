package crawlercmd

import "testing"

// The collector gets more room only when much lives for long, and then in
// proportion.
func TestMemoryLimit(t *testing.T) {
	for _, tt := range []struct{ usual, once, want int64 }{
		{0, 0, 64},
		{30, 30, 64},
		{30, 500, 64}, // a peak
		{500, 500, 984},
	} {
		lived := make([]int64, livesLong)
		for i := range lived {
			lived[i] = tt.usual << 20
		}
		lived[3] = tt.once << 20
		if got := memoryLimit(lived) >> 20; got != tt.want {
			t.Errorf("%d MiB live, once %d: limit %d MiB, want %d", tt.usual, tt.once, got, tt.want)
		}
	}
}
