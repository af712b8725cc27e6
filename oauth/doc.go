// Package oauth is both halves of signing in to an app: the resource side, which
// protects an app's MCP endpoint, and the host side, which signs a user in at
// the app's authorization server.
//
// Sources: MCP 2026-07-28 authorization; OAuth 2.1; RFC 6750, 7009, 7662, 8414,
// 8707, 9068, 9207, 9728; OpenBot App Protocol V1.1, section on accounts;
// decisions D19 to D22.
package oauth
