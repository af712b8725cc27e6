// Package sqlite keeps what a host must not lose in one SQLite file, secrets
// sealed (oauth.md section 11).
package sqlite
