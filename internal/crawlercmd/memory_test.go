package crawlercmd

import "testing"

// The collector gets more room only when much lives for long, and then in
// proportion.
func TestMemoryLimit(t *testing.T) {
	for _, tt := range []struct{ usual, once, want int64 }{
		{0, 0, 56},
		{30, 30, 56},
		{30, 500, 56}, // a peak
		{500, 500, 976},
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
