//go:build !race

package crawlercmd_test

const raceDetector = false
