// Package accesstoken judges access tokens: JWTs by their issuer's keys, opaque
// ones by introspection. It knows nothing of HTTP challenges or scopes.
//
// A token is measured before it is parsed, its claims are judged before its
// signature costs anything, and its key comes from the issuer's key set alone.
// Good answers are kept for some minutes under the token's SHA-256, never under
// the token, and no error or log line holds a part of one.
//
// An issuer is asked only as often as is needed, whatever strangers send: about
// its keys and its metadata by one flight at a time, about one token once in 30
// seconds, and through a bounded queue. What was known before stays when it is
// down, hangs, or publishes a key set in which nothing can be used.
//
// Sources: RFC 7515, 7517, 7519, 7662, 8725, 9068; oauth S4, S12, S13, J1 to J6
// and section 10; D19.
package accesstoken
