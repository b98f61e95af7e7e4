// The connection to the session: questions with answers, and what the session says of its own accord.

export class Connection {
  constructor(onMessage, onClose) {
    this.next = 1;
    this.waiting = new Map();
    this.onMessage = onMessage;
    const token = new URLSearchParams(location.search).get("token") ?? "";
    this.socket = new WebSocket(`ws://${location.host}/socket?token=${encodeURIComponent(token)}`);
    this.socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.socket.onclose = (event) => {
      for (const { reject } of this.waiting.values()) reject(new Error("The connection is closed."));
      this.waiting.clear();
      onClose(event);
    };
  }

  receive(message) {
    const waiting = this.waiting.get(message.re);
    if (message.type === "crashed") this.drop(message.message);
    if (!waiting) return this.onMessage(message);
    this.waiting.delete(message.re);
    if (message.type === "error") waiting.reject(new Error(message.message));
    else waiting.resolve(message);
  }

  // A crash takes the questions with it that were not answered yet.
  drop(reason) {
    for (const { reject } of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
  }

  get open() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  ask(type, fields = {}) {
    if (!this.open) return Promise.reject(new Error("The connection is closed."));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ type, id, ...fields }));
    });
  }
}

// Ask again and again, one question at a time: of those that come meanwhile only the latest is asked.
export function latest(ask) {
  let busy = false;
  let next = null;
  return async function request(argument) {
    next = { argument };
    if (busy) return;
    busy = true;
    while (next) {
      const { argument: now } = next;
      next = null;
      try {
        await ask(now);
      } catch (error) {
        next = null;
        busy = false;
        throw error;
      }
    }
    busy = false;
  };
}

export function bytes(base64) {
  const text = atob(base64);
  const array = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) array[i] = text.charCodeAt(i);
  return array;
}
