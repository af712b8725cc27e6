// The same tool on the TypeScript SDK, with the settings that cost it least: one
// JSON object an answer, and no revision but 2026-07-28. It tells where it is,
// and ends when its input does.
import { createServer } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import * as z from 'zod';

console.warn = () => {}; // that such answers carry no progress is meant
const text = z.object({ text: z.string().describe('a text') });
const handler = toNodeHandler(
	createMcpHandler(
		() => {
			const server = new McpServer({ name: 'com.example/echo', version: '1.0.0' });
			server.registerTool('echo', { description: 'Say a text again.', inputSchema: text, outputSchema: text }, async (input) => ({
				content: [{ type: 'text', text: input.text }],
				structuredContent: { text: input.text },
			}));
			return server;
		},
		{ responseMode: 'json', legacy: 'reject' },
	),
);

const listen = (answer) =>
	new Promise((ready) => {
		const server = createServer(answer);
		server.listen(0, '127.0.0.1', () => ready(`127.0.0.1:${server.address().port}`));
	});
const used = () => {
	const { user, system } = process.cpuUsage();
	return `${user + system}us`;
};
const Addr = await listen((request, response) => handler(request, response));
const Used = await listen((_, response) => response.end(used()));
console.log(JSON.stringify({ Addr, Used }));
process.stdin.on('end', () => process.exit(0)).resume();
