"use strict";
// Browsers start no workers from files. In a site that is opened as files, without a server, the
// worker that searches is a frame that nobody sees: it has a thread less, and gives the same answers.

if (location.protocol === "file:") {
  const run = (inner, url) => new Promise((done, fail) => {
    const script = inner.document.createElement("script");
    script.src = url;
    script.addEventListener("load", done);
    script.addEventListener("error", () => fail(new Error(`cannot load ${url}`)));
    inner.document.head.append(script);
  });

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!DOCTYPE html><title>worker</title>";
      this.ready = new Promise((done) => this.frame.addEventListener("load", done, { once: true }))
        .then(() => {
          const inner = this.frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          inner.importScripts = async (...urls) => { for (const each of urls) await run(inner, each); };
          return run(inner, new URL(url, location.href).href).then(() => inner);
        });
      document.documentElement.append(this.frame);
    }

    postMessage(data) {
      this.ready.then((inner) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
    }

    terminate() { this.frame.remove(); }
  };
}
