// Package oauth is both halves of signing in to an app: the resource side, which
// protects an app's MCP endpoint, and the host side, which signs a user in at
// the app's authorization server.
//
// One attack remains that the standards allow: an app can name a malicious
// authorization server that sends the user on to an honest one, and receive the
// code that this one gave, where neither server puts its issuer (RFC 9207) into
// its answers. PKCE is no help there, since the malicious server is sent the
// verifier too; only servers that promise iss are safe from it.
//
// Sources: MCP 2026-07-28 authorization; OAuth 2.1; RFC 6750, 7009, 7662, 8414,
// 8707, 9068, 9207, 9728; OpenBot App Protocol V1.1, section on accounts;
// decisions D19 to D22.
package oauth
