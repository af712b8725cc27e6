package index

// shares of the claims, in percent, while every class has hosts that are due
// (P6). The share of a class that has none passes to the others in proportion.
var shares = [...]int{ClassUser: 40, ClassRemoval: 20, ClassRecheck: 25, ClassNew: 15}

// Turns decides which class each claim goes to, so that over any stretch of
// claims each class gets its share: smooth weighted round robin, as load
// balancers use it. The zero value is ready; it is not safe for concurrent use.
type Turns struct {
	credit [len(shares)]int
}

// Take hands out at most n turns to classes that have due[class] hosts waiting,
// and gives how many each class got.
func (t *Turns) Take(due [4]int, n int) (got [4]int) {
	for ; n > 0; n-- {
		best, total := -1, 0
		for c := range shares {
			if due[c] == 0 {
				// Nothing is saved up: a class that was idle may not
				// crowd out the others later.
				t.credit[c] = 0
				continue
			}
			total += shares[c]
			t.credit[c] += shares[c]
			if best < 0 || t.credit[c] > t.credit[best] {
				best = c
			}
		}
		if best < 0 {
			break
		}
		t.credit[best] -= total
		due[best]--
		got[best]++
	}
	return got
}
