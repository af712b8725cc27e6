// An authorization server made of the npm package oidc-provider, with nothing
// of this project in it. The first line of its standard input is its
// configuration; it prints its port on loopback, and ends when its input does.
//
//   { issuer, key, cert, ca,   its name and TLS, in PEM; what it trusts
//     hosts,                   ports on loopback of the only hosts there that it may fetch from
//     resources,               whom it gives tokens for
//     scopes, opaque, secret } tokens to be introspected, by the client "resource-server"
//
// Whoever comes to its sign-in page is alice, and agrees.
import { once } from 'node:events';
import { generateKeyPairSync } from 'node:crypto';
import https from 'node:https';
import readline from 'node:readline';
import Provider, { errors } from 'oidc-provider';

const lines = readline.createInterface({ input: process.stdin });
const config = JSON.parse((await once(lines, 'line'))[0]);
lines.on('close', () => process.exit());

// The package refuses to fetch from loopback, rightly. The hosts of the
// configuration are the exception; everything else keeps its guard.
async function fetchFrom(url, options) {
	const { hostname, pathname, search } = new URL(url);
	const port = config.hosts[hostname];
	if (port === undefined) return fetch(url, options);
	const request = https.request({
		host: '127.0.0.1', port, servername: hostname, ca: config.ca, signal: options.signal,
		method: options.method, path: pathname + search, headers: { ...Object.fromEntries(options.headers), host: hostname },
	});
	request.end();
	const [answer] = await once(request, 'response');
	const chunks = await answer.toArray();
	return new Response(Buffer.concat(chunks), { status: answer.statusCode, headers: answer.headers });
}

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const token = config.opaque
	? { accessTokenFormat: 'opaque' }
	: { accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };

const provider = new Provider(config.issuer, {
	fetch: fetchFrom,
	jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256', kid: 'first' }] },
	cookies: { keys: ['of a test'] },
	scopes: ['openid', 'offline_access'],
	clientDefaults: { id_token_signed_response_alg: 'ES256' },
	clients: [{
		client_id: 'resource-server', client_secret: config.secret, token_endpoint_auth_method: 'client_secret_basic',
		grant_types: [], response_types: [], redirect_uris: [],
	}],
	findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
	issueRefreshToken: (ctx, client) => client.grantTypeAllowed('refresh_token'),
	interactions: { url: (ctx, interaction) => `/sign-in/${interaction.uid}` },
	features: {
		devInteractions: { enabled: false },
		clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
		introspection: { enabled: true },
		revocation: { enabled: true },
		resourceIndicators: {
			enabled: true,
			useGrantedResource: () => true,
			getResourceServerInfo: (ctx, resource) => {
				if (!config.resources.includes(resource)) throw new errors.InvalidTarget();
				return { scope: config.scopes.join(' '), audience: resource, accessTokenTTL: 300, ...token };
			},
		},
	},
});

provider.use(async (ctx, next) => {
	if (!ctx.path.startsWith('/sign-in/')) return next();
	const { params, prompt, grantId } = await provider.interactionDetails(ctx.req, ctx.res);
	const grant = (grantId && await provider.Grant.find(grantId)) || new provider.Grant({ accountId: 'alice', clientId: params.client_id });
	const { missingOIDCScope, missingResourceScopes } = prompt.details;
	if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
	for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) grant.addResourceScope(resource, scopes.join(' '));
	await provider.interactionFinished(ctx.req, ctx.res, {
		login: { accountId: 'alice' },
		...(prompt.name === 'consent' && { consent: { grantId: await grant.save() } }),
	}, { mergeWithLastSubmission: true });
});

const server = https.createServer({ key: config.key, cert: config.cert }, provider.callback());
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
