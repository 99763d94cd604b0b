// An editor made of the official TypeScript SDK: runs the command it is given, has a conversation
// with it, and prints what it was told as one JSON object. The test judges that.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [folder, load, ...command] = process.argv.slice(2);
const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const told = { updates: [], asked: [] };
const { methods } = acp;

await acp
  .client({ name: "test" })
  .onNotification(methods.client.session.update, ({ params }) => {
    told.updates.push(params.update);
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    told.asked.push(params.options.map((option) => option.kind));
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .connectWith(stream, async (editor) => {
    told.initialized = await editor.request(methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    const place = { cwd: folder, mcpServers: [] };
    if (load) {
      told.session = load;
      told.loaded = await editor.request(methods.agent.session.load, { sessionId: load, ...place });
    } else {
      const begun = await editor.request(methods.agent.session.new, place);
      told.session = begun.sessionId;
      told.modes = begun.modes;
      const sessionId = begun.sessionId;
      await editor.request(methods.agent.session.setMode, { sessionId, modeId: "ask" });
      const prompt = [{ type: "text", text: "mend add" }];
      told.turn = await editor.request(methods.agent.session.prompt, { sessionId, prompt });
      told.listed = await editor.request(methods.agent.session.list, { cwd: folder });
    }
  });
agent.stdin.end();
console.log(JSON.stringify(told));
