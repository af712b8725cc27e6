// A client made of the npm package alone. It connects to the address of a
// server, or to a command over its standard input and output, makes the requests
// of the last argument one after the other, and prints what came back. VERSION is
// a revision to insist on, or "any".
//
//   node client.mjs VERSION URL REQUESTS
//   node client.mjs VERSION COMMAND ARGUMENT... REQUESTS
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [version, ...target] = process.argv.slice(1, -1);
const requests = JSON.parse(process.argv.at(-1));
const remote = target[0].startsWith('http');

const client = new Client(
	{ name: 'openbot-test', version: '1.0.0' },
	{
		versionNegotiation: { mode: version === 'any' ? 'auto' : { pin: version } },
		capabilities: { elicitation: { form: {}, url: {} }, sampling: {} },
	},
);
client.setRequestHandler('elicitation/create', ({ params }) => {
	const fields = Object.entries(params.requestedSchema?.properties ?? {});
	const content = fields.filter(([, { type }]) => type === 'string').map(([name]) => [name, `answer to ${name}`]);
	return { action: content.length > 0 ? 'accept' : 'decline', content: Object.fromEntries(content.slice(0, 1)) };
});
client.setRequestHandler('sampling/createMessage', ({ params }) => ({
	model: 'none', role: 'assistant', stopReason: 'endTurn',
	content: { type: 'text', text: `answer to ${JSON.stringify(params.messages)}` },
}));
await client.connect(
	remote
		? new StreamableHTTPClientTransport(new URL(target[0]))
		: new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: 'ignore' }),
);

const methods = {
	'tools/list': () => client.listTools(),
	'resources/list': () => client.listResources(),
	'resources/templates/list': () => client.listResourceTemplates(),
	'prompts/list': () => client.listPrompts(),
	'tools/call': (params, options) => client.callTool(params, options),
	'resources/read': (params) => client.readResource(params),
	'prompts/get': (params) => client.getPrompt(params),
	'completion/complete': (params) => client.complete(params),
};
const answers = [];
for (const { method, params, progress } of requests) {
	const steps = [];
	try {
		const result = await methods[method](params, progress ? { onprogress: (p) => steps.push(p) } : undefined);
		answers.push(progress ? { result, steps } : { result });
	} catch (error) {
		answers.push({ error: String(error.message ?? error) });
	}
}
console.log(JSON.stringify({ version: client.getNegotiatedProtocolVersion(), server: client.getServerVersion(), answers }));
await client.close();
