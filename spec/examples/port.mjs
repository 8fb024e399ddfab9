// A port begins here: an emitter in another language, held against the recorded vectors.
//
//   responses-conformance export vectors && node spec/examples/port.mjs vectors/emitter.json
//
// A vector holds one response: the resource at its start, the ids as they are drawn, and the
// batches that the model produced. From these the emitter makes every event.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

const text = (value) => ({ type: "output_text", text: value, annotations: [], logprobs: [] });
const PARTS = {
  output_text: { event: "output_text", index: "content_index", field: "text", frame: "content_part", make: text, more: { logprobs: [] } },
  refusal: { event: "refusal", index: "content_index", field: "refusal", frame: "content_part", make: (value) => ({ type: "refusal", refusal: value }) },
  summary: { event: "reasoning_summary_text", index: "summary_index", field: "text", frame: "reasoning_summary_part", make: (value) => ({ type: "summary_text", text: value }) },
  reasoning_text: { event: "reasoning_text", index: "content_index", field: "text", frame: "content_part", make: (value) => ({ type: "reasoning_text", text: value }) },
  arguments: { event: "function_call_arguments", field: "arguments" },
  input: { event: "custom_tool_call_input", field: "input" },
};
const WHOLE = { function_call: "arguments", custom_tool_call: "input" };

class Emitter {
  constructor(vector) {
    this.vector = vector;
    this.ids = [...vector.ids];
    this.response = vector.response;
    this.events = [];
    this.lifecycle("created", {});
    this.lifecycle("in_progress", {});
  }

  send(type, fields) {
    const lane = this.vector.stream_id === null ? {} : { stream_id: this.vector.stream_id };
    this.events.push({ type: `response.${type}`, sequence_number: this.events.length, ...lane, ...fields });
  }

  lifecycle(type, changes) {
    this.response = { ...this.response, ...changes };
    this.send(type, { response: this.response });
  }

  ItemStarted({ kind, name }) {
    const call = kind in WHOLE ? { call_id: this.ids.shift() } : {};
    this.item = { kind, name, ...call, id: this.ids.shift(), whole: "", content_index: [], summary_index: [] };
    this.send("output_item.added", { item: this.wire("in_progress"), output_index: this.response.output.length });
    if (kind === "compaction") this.send("compaction.compacting", this.where());
  }

  Piece({ text, kind }) {
    if (kind === "encrypted_content") return void (this.item.whole += text);
    if (this.open?.kind !== kind) this.begin(kind);
    if (text) this.send(`${PARTS[kind].event}.delta`, { delta: text, ...PARTS[kind].more, ...this.open.where });
    this.open.text += text;
  }

  ItemDone({ status }) {
    if (this.item.kind in WHOLE && !this.open) this.begin(WHOLE[this.item.kind]);
    this.end();
    const item = this.wire(status);
    this.send("output_item.done", { item, output_index: this.response.output.length });
    this.response = { ...this.response, output: [...this.response.output, item] };
  }

  Finished({ reason }) {
    const { usage, completed_at } = this.vector, details = reason === null ? null : { reason };
    const status = reason === null ? "completed" : "incomplete";
    this.lifecycle(status, { status, incomplete_details: details, usage, completed_at });
  }

  Failed({ code, message, announced }) {
    const error = { type: "server_error", code, message, param: null }, number = this.events.length;
    if (announced) this.events.push({ type: "error", sequence_number: number, status: 500, error });
    this.lifecycle("failed", { status: "failed", error: { code, message }, usage: this.vector.usage });
  }

  begin(kind) {
    this.end();
    const { index, frame, make } = PARTS[kind];
    const where = index ? { ...this.where(), [index]: this.item[index].length } : this.where();
    this.open = { kind, where, text: "" };
    if (frame) this.send(`${frame}.added`, { part: make(""), ...where });
  }

  end() {
    if (!this.open) return;
    const { event, field, index, frame, make, more } = PARTS[this.open.kind];
    const { where, text } = this.open;
    this.send(`${event}.done`, { [field]: text, ...more, ...where });
    if (index) this.item[index].push(make(text));
    else this.item.whole = text;
    if (frame) this.send(`${frame}.done`, { part: make(text), ...where });
    this.open = null;
  }

  where() {
    return { item_id: this.item.id, output_index: this.response.output.length };
  }

  wire(status) {
    const { kind, id, name, call_id, whole, content_index: content, summary_index: summary } = this.item;
    const sealed = status !== "in_progress" && this.vector.sealed[id] ? { encrypted_content: this.vector.sealed[id] } : {};
    if (kind === "message") return { type: kind, id, status, role: "assistant", content: [...content] };
    if (kind === "reasoning") return { type: kind, id, status, summary: [...summary], content: [...content], ...sealed };
    if (kind === "function_call") return { type: kind, id, call_id, name, arguments: whole, status };
    if (kind === "custom_tool_call") return { type: kind, id, call_id, name, input: whole };
    return { type: kind, id, encrypted_content: whole };
  }
}

const { vectors } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const failed = vectors.filter((vector) => {
  const emitter = new Emitter(vector);
  for (const entry of vector.batches.flat()) emitter[entry.part](entry);
  return !isDeepStrictEqual(emitter.events, vector.events);
});
for (const { id } of failed) console.log(`differs: ${id}`);
console.log(`${vectors.length - failed.length} passed, ${failed.length} failed`);
process.exit(failed.length ? 1 : 0);
