// Package accesstoken judges access tokens: JWTs by their issuer's keys, opaque
// ones by introspection. It knows nothing of HTTP challenges or scopes.
package accesstoken
