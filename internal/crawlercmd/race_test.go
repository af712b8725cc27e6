//go:build race

package crawlercmd_test

// raceDetector tells tests that memory is not what it is without it.
const raceDetector = true
