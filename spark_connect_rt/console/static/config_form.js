// A configuration as a form and as JSON, side by side. What is typed on one side appears on the other at once. The worker
// validates it and answers the fields again; only new fields and complaints are put in, so nobody loses what they type.
// Secrets typed here stay in their inputs: the JSON shows [hidden] for them, which means "as stored".
// An empty setting that nobody has touched is not shown as wrong, until somebody asks for a check, a preview or more.
"use strict";

(() => {
  const HIDDEN = "[hidden]";
  const WAIT_MS = 350;

  const inputOf = (field) => field.querySelector("[data-input]");
  const fieldsIn = (node) => [...node.querySelectorAll("[data-setting]")];

  function unfold(field) {
    for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  }

  function readObject(text) {
    const value = JSON.parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) {
      throw new SyntaxError('a configuration is one object: {"setting": "value"}');
    }
    const config = new Map();
    for (const [name, one] of Object.entries(value)) {
      if (one !== null && typeof one === "object") throw new SyntaxError(`${name}: a setting must be a string, number or boolean`);
      if (one !== null) config.set(name, typeof one === "string" ? one : String(one));
    }
    return config;
  }

  function setInput(input, text) {
    if (input.value === text) return;
    if (input.tagName === "SELECT" && ![...input.options].some((one) => one.value === text)) {
      input.add(new Option(text, text));
    }
    input.value = text;
  }

  class Editor {
    constructor(root) {
      this.root = root;
      this.fields = root.querySelector("[data-config-fields]");
      this.json = root.querySelector("[data-config-json]");
      this.problem = root.querySelector("[data-config-json-problem]");
      this.status = document.querySelector("[data-config-status]");
      this.sent = root.querySelector("#config");
      this.config = readObject(this.json.value);
      this.touched = new Set();
      this.strict = !("untouched" in root.dataset); // an existing configuration is judged as a whole
      this.fields.addEventListener("submit", (event) => event.preventDefault()); // Enter in a field
      this.fields.addEventListener("input", (event) => this.typed(event.target));
      for (const button of document.querySelectorAll("[data-judges]")) button.addEventListener("click", () => this.judge());
      this.json.addEventListener("input", () => this.typedJson());
      this.json.addEventListener("blur", () => this.problem.textContent || this.showJson());
      root.querySelector("[data-find-setting]").addEventListener("input", (event) => this.find(event.target.value));
      root.querySelector("[data-add-setting]").addEventListener("submit", (event) => this.add(event));
      this.store();
      this.count();
    }

    typed(input) {
      const field = input.closest("[data-setting]");
      if (!field || !input.matches("[data-input]")) return;
      if (input.value === "") this.config.delete(field.dataset.setting);
      else this.config.set(field.dataset.setting, input.value);
      this.touched.add(field.dataset.setting);
      this.problem.textContent = "";
      this.showJson();
      this.changed();
    }

    judge() { // from now on, what is missing is a problem
      if (this.strict) return;
      this.strict = true;
      this.validate();
    }

    typedJson() {
      let given;
      try {
        given = readObject(this.json.value);
      } catch (error) {
        this.problem.textContent = error.message;
        return;
      }
      this.problem.textContent = "";
      for (const [name, value] of given) if (value === HIDDEN && this.config.has(name)) given.set(name, this.config.get(name));
      this.config = given;
      this.strict = true;
      for (const field of fieldsIn(this.fields)) setInput(inputOf(field), this.config.get(field.dataset.setting) ?? "");
      this.changed();
    }

    changed() {
      this.store();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.validate(), WAIT_MS);
    }

    store() {
      this.sent.value = JSON.stringify(Object.fromEntries(this.config));
      this.sent.dispatchEvent(new Event("change", { bubbles: true }));
    }

    showJson() {
      const secret = new Set(fieldsIn(this.fields).filter((one) => one.dataset.control === "secret").map((one) => one.dataset.setting));
      const shown = [...this.config].map(([name, value]) => [name, secret.has(name) && value ? HIDDEN : value]);
      this.json.value = JSON.stringify(Object.fromEntries(shown), null, 2);
    }

    async validate() {
      this.request?.abort();
      this.request = new AbortController();
      const data = { config: this.sent.value, connector: this.root.dataset.connector };
      let text;
      try {
        const answer = await connectrt.post(this.root.dataset.validate, data, this.request.signal);
        text = await answer.text();
        if (!answer.ok) {
          this.status.textContent = `Not validated: HTTP ${answer.status}`;
          return;
        }
      } catch (error) {
        if (error.name !== "AbortError") this.status.textContent = "Not validated: this worker does not answer.";
        return;
      }
      const fresh = connectrt.fragment(text);
      this.missing = this.strict ? [] : this.withhold(fresh);
      this.merge(fresh);
      this.count();
    }

    // Take the complaints about empty settings that nobody has touched out of an answer; return these settings.
    withhold(fresh) {
      const missing = fieldsIn(fresh).filter((field) => field.classList.contains("wrong")
        && !this.touched.has(field.dataset.setting) && !this.config.get(field.dataset.setting));
      const total = fresh.querySelector("[data-count]");
      for (const field of missing) {
        const complaints = field.querySelector(".field-errors");
        total.dataset.count = String(Number(total.dataset.count) - complaints.children.length);
        const group = field.closest("[data-group]").querySelector("[data-group-errors]");
        const left = Number.parseInt(group.textContent, 10) - complaints.children.length;
        group.textContent = `${left} problem${left === 1 ? "" : "s"}`;
        group.hidden = !left;
        complaints.replaceChildren();
        field.classList.remove("wrong");
        inputOf(field).removeAttribute("aria-invalid");
      }
      return missing.map((field) => field.dataset.setting);
    }

    merge(fresh) {
      const focused = document.activeElement;
      this.fields.querySelector("[data-form-problem]")?.remove();
      const problem = fresh.querySelector("[data-form-problem]");
      if (problem) this.fields.prepend(problem);
      this.fields.querySelector("[data-count]").dataset.count = fresh.querySelector("[data-count]").dataset.count;
      const kept = new Set();
      let before = this.fields.querySelector("[data-form-problem]");
      for (const group of fresh.querySelectorAll("[data-group]")) {
        kept.add(group.id);
        const here = document.getElementById(group.id);
        if (here) this.mergeGroup(here, group, focused);
        else before ? before.after(group) : this.fields.prepend(group);
        before = here || group;
      }
      for (const group of [...this.fields.querySelectorAll("[data-group]")]) {
        if (!kept.has(group.id) && !group.contains(focused)) group.remove();
      }
      for (const field of fieldsIn(this.fields)) {
        const input = inputOf(field);
        if (input !== focused) setInput(input, this.config.get(field.dataset.setting) ?? "");
      }
      if (focused !== this.json && !this.problem.textContent) this.showJson();
    }

    mergeGroup(here, fresh, focused) {
      const errors = here.querySelector("[data-group-errors]");
      const news = fresh.querySelector("[data-group-errors]");
      errors.textContent = news.textContent;
      errors.hidden = news.hidden;
      if (!news.hidden) here.open = true;
      const place = here.querySelector("[data-fields]");
      const kept = new Set();
      let before = null;
      for (const field of fieldsIn(fresh)) {
        kept.add(field.id);
        const old = document.getElementById(field.id);
        const same = old && (old.dataset.control === field.dataset.control || old.contains(focused));
        if (same) this.mergeField(old, field);
        else if (old) old.replaceWith(field);
        else before ? before.after(field) : place.prepend(field);
        before = same ? old : field;
        if (before.classList.contains("wrong")) unfold(before);
      }
      for (const field of fieldsIn(here)) if (!kept.has(field.id) && !field.contains(focused)) field.remove();
    }

    mergeField(old, fresh) {
      const input = inputOf(old);
      const errors = old.querySelector(".field-errors");
      const news = fresh.querySelector(".field-errors");
      if (errors.textContent !== news.textContent) errors.replaceChildren(...news.childNodes);
      old.classList.toggle("wrong", fresh.classList.contains("wrong"));
      if (inputOf(fresh).hasAttribute("aria-invalid")) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
      const list = old.querySelector("datalist");
      const options = fresh.querySelector("datalist");
      if (list && options && list.children.length !== options.children.length) list.replaceChildren(...options.children);
    }

    count() {
      const wrong = Number(this.fields.querySelector("[data-count]").dataset.count);
      const problem = this.fields.querySelector("[data-form-problem]");
      const missing = this.strict ? [] : this.missing ?? [...this.fields.querySelectorAll(".required")]
        .map((one) => one.closest("[data-setting]").dataset.setting).filter((name) => !this.config.get(name));
      const filled = missing.length ? `Still required: ${missing.join(", ")}.` : "No problems found.";
      const words = wrong === 0 ? filled : wrong === 1 ? "1 problem." : `${wrong} problems.`;
      this.status.textContent = problem ? "These settings could not be validated." : words;
      this.root.dataset.valid = String(wrong === 0 && !problem);
    }

    find(text) {
      const wanted = text.trim().toLowerCase();
      for (const group of this.fields.querySelectorAll("[data-group]")) {
        let some = false;
        for (const field of fieldsIn(group)) {
          const found = !wanted || field.dataset.setting.toLowerCase().includes(wanted) || field.textContent.toLowerCase().includes(wanted);
          field.hidden = !found;
          some ||= found;
        }
        group.hidden = !some;
        if (wanted && some) group.open = true;
        for (const more of group.querySelectorAll("[data-more]")) {
          const found = fieldsIn(more).some((field) => !field.hidden);
          more.hidden = !found;
          if (wanted && found) more.open = true;
        }
      }
    }

    add(event) {
      event.preventDefault();
      const input = event.target.elements.setting;
      const name = input.value.trim();
      if (!name) return;
      if (!this.config.has(name)) this.config.set(name, "");
      input.value = "";
      this.showJson();
      this.store();
      this.validate().then(() => {
        const field = fieldsIn(this.fields).find((one) => one.dataset.setting === name);
        if (!field) return;
        unfold(field);
        inputOf(field).focus();
      });
    }
  }

  const start = (node) => {
    for (const root of node.querySelectorAll("[data-config-editor]:not([data-started])")) {
      root.dataset.started = "";
      new Editor(root);
    }
  };
  document.addEventListener("DOMContentLoaded", () => start(document));
  document.addEventListener("htmx:load", (event) => start(event.target.parentNode || document));
})();
