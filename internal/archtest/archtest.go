// Package archtest holds the layout of the module as tests: which package may
// import which, and that the code in the README is code that runs. It has no
// code of its own to import.
package archtest
