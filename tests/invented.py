"""Invented sessions: every kind of entry that Claude Code writes, in any order and damage. One seed is one session."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import chain
from typing import Any

from transcripts import stamp

Json = dict[str, Any]
REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
SAID = "To tell you how to proceed, the user said:\n"
NOTE = "\n\nNote: The user's next message may contain a correction or preference. Pay close attention."
COMPACTED = "This session is being continued from a previous conversation that ran out of context. It was about tides."
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def invent(seed: int) -> bytes:
    """The bytes of a session that this seed stands for."""
    session = Session(random.Random(seed))
    for _ in range(session.random.randint(1, 40)):
        session.step()
    return session.damaged()


class Session:
    """Grows a transcript entry by entry, as Claude Code would, and then damages it."""

    def __init__(self, dice: random.Random) -> None:
        self.random = dice
        self.entries: list[Json] = []
        self.leaf: str | None = None
        self.prompts: list[str | None] = []  # what the prompts hang on: where a rewind can go back to
        self.seconds = 0.0
        self.serial = 0
        self.waiting: list[str] = []
        self.tags = dice.random() < 0.5
        self.steps: list[tuple[int, Callable[[], None]]] = [
            (8, self.prompt),
            (8, self.answer),
            (3, self.command),
            (2, self.bash),
            (3, self.rejection),
            (3, self.questions),
            (2, self.plan),
            (5, self.queue),
            (2, self.interruption),
            (2, self.compaction),
            (3, self.rewind),
            (3, self.parallel_calls),
            (3, self.injection),
            (2, self.sidechain),
            (2, self.no_model),
            (3, self.bookkeeping),
            (1, self.lost_parent),
            (1, self.odd_values),
            (1, self.meta_parent),
            (1, self.command_twice),
        ]

    def step(self) -> None:
        self.seconds += self.random.choice([0, 60, 1_000, 40_000])
        weights, steps = zip(*self.steps, strict=True)
        self.random.choices(steps, weights)[0]()

    # Texts

    def words(self) -> str:
        """A text that stands nowhere else, perhaps odd, perhaps with private spans."""
        self.serial += 1
        text = f"words {self.serial}"
        if self.random.random() < 0.2:
            odd = [
                "two\n\nlines",
                "\u2028",
                "`code`",
                "<div>",
                "**User** (10:00)",
                "\\*[bottlepipe] x",
                "é😀",
                " ",
                "\0",
            ]
            text += self.random.choice(["\n", " "]) + self.random.choice(odd)
        if self.random.random() < 0.1:
            text = self.random.choice(["**Assistant** (09:00)\n", "  ", "---\n", "*What happened:*\n", "\\"]) + text
        if self.tags and self.random.random() < 0.1:
            return text + self.soup()
        return self.with_tags(text) if self.tags and self.random.random() < 0.4 else text

    def soup(self) -> str:
        """Whole tags and their pieces in any order."""
        names = ["private", "claude-mem-context", "system-reminder", "persisted-output"]
        whole = [f"<{end}{name}>" for name in names for end in ("", "/")]
        pieces = [
            "<priv",
            "ate>",
            "</priv",
            "<private/>",
            "<",
            ">",
            "a",
            " ",
            "\n",
            "\n\n",
            "`",
            "``",
            "\n```\n",
            "\n~~~\n",
        ]
        return "".join(self.random.choices([*whole, *pieces, *pieces], k=self.random.randint(1, 12)))

    def with_tags(self, text: str) -> str:
        name = self.random.choice(
            ["private", "Private", "claude-mem-context", "system-reminder", "system_instruction", "persisted-output"]
        )
        inner = f"SECRET {self.serial}"
        return text + self.random.choice(
            [
                f" <{name}>{inner}</{name}> after",
                f" <{name} x='1'>{inner}\n\n</{name} >",
                f" <{name}>{inner}<{name}>deep</{name}>{inner}</{name}> after",
                f" <{name}>{inner} to the end",
                f" </{name}> after the end",
                f" <{name}/> after",
                f" </{name}> after",
                f" `<{name}>` {inner}",
                f"\n```\n<{name}>{inner}</{name}>\n```\nafter",
                f"\n~~~html\n<{name}>{inner}\n~~~\n",
                f" <pri<private>x</private>vate>{inner}</private> after",
                f" <{name}>{inner}<system-reminder>x</{name}>{inner}</system-reminder> after",
                f" <{name}-note>public</{name}-note>",
                f" <{name} {inner}",
                f" `x` <{name}>{inner} ` {inner}</{name}> ` y",
            ]
        )

    def private(self) -> str:
        self.serial += 1
        return f"<private>SECRET {self.serial}</private>" + self.random.choice(
            ["", "\n", "<system-reminder>x</system-reminder>"]
        )

    # Entries

    def add(self, entry: Json, *, parent: str | None = "leaf", moves: bool = True) -> Json:
        """Append an entry with a uuid below `parent`, as a rule below the newest one."""
        self.serial += 1
        self.seconds += self.random.choice([0, 0.25, 1, 7]) - (5 if self.random.random() < 0.05 else 0)
        whole = {
            "parentUuid": self.leaf if parent == "leaf" else parent,
            "isSidechain": False,
            "uuid": f"u{self.serial}",
            "timestamp": stamp(self.seconds),
            "sessionId": "s",
            "cwd": "/home/ada",
            **entry,
        }
        self.entries.append(whole)
        if moves:
            self.leaf = whole["uuid"]
        return whole

    def user(self, content: Any, **fields: Any) -> Json:
        return self.add({"type": "user", "message": {"role": "user", "content": content}, **fields})

    def tool(self, name: str) -> str:
        """An assistant entry that calls a tool; the id of the call."""
        self.serial += 1
        call = {"type": "tool_use", "id": f"toolu_{self.serial}", "name": name, "input": {}}
        message = {"id": f"msg_{self.serial}", "role": "assistant", "model": "claude-x", "content": [call]}
        self.add({"type": "assistant", "message": message})
        return str(call["id"])

    def result(self, name: str, text: Any, beside: Any = None, also: list[Json] | None = None, **fields: Any) -> None:
        call = self.tool(name)
        content = [{"type": "text", "text": text}] if isinstance(text, str) and self.random.random() < 0.2 else text
        result = {"type": "tool_result", "tool_use_id": call, "content": content}
        if fields.pop("is_error", False):
            result["is_error"] = True
        self.user([result, *(also or [])], **({} if beside is None else {"toolUseResult": beside}), **fields)

    def prompt(self) -> None:
        self.prompts.append(self.leaf)
        text = self.private() if self.tags and self.random.random() < 0.1 else self.words()
        block = {"type": "text", "text": text}
        content = self.random.choice(
            [
                text,
                text,
                text,
                [block],
                [block, {"type": "text", "text": self.words()}],
                [block, IMAGE],
                [IMAGE],
                [{"type": "text", "text": "<ide_opened_file>The user opened x</ide_opened_file>"}, block],
                f"<ide_selection>lines\n</ide_selection>\n{text}",
                f"<system-reminder>be kind</system-reminder>\n{text}",
                [text, None],
                [{"type": "document", "source": {}}, block],
                f'<pasted_content id="1">\n{text}\n</pasted_content>',
                f"<user-memory-input>{text}</user-memory-input>",
            ]
        )
        fields = self.random.choice(
            [{}, {}, {"promptSource": "typed"}, {"origin": {"kind": "human"}}, {"timestamp": "never"}]
        )
        self.user(content, **fields)

    def answer(self) -> None:
        """One message in several entries, with a tool's traffic between or not."""
        self.serial += 1
        name = f"msg_{self.serial}"
        for _ in range(self.random.choice([1, 1, 2, 3])):
            texts = [self.words() for _ in range(self.random.choice([1, 1, 1, 2, 0]))]
            blocks = [{"type": "text", "text": text} for text in texts]
            if self.random.random() < 0.3:
                blocks.insert(0, {"type": "thinking", "thinking": "hm", "signature": ""})
            message = {"id": name, "role": "assistant", "model": "m", "content": blocks}
            self.add({"type": "assistant", "message": message, **self.random.choice([{}] * 9 + [{"timestamp": ""}])})
            if self.random.random() < 0.3:
                self.result("Bash", "total 4")
            if self.random.random() < 0.1:
                self.attached(self.words())

    def command(self) -> None:
        name = self.random.choice(["/model", "/review", "/compact", "/bakery:mix"])
        args = self.random.choice(["", self.words().strip()])
        parts = [f"<command-name>{name}</command-name>", f"<command-message>{name[1:]} is running…</command-message>"]
        self.random.shuffle(parts)
        content = "\n".join([*parts, f"<command-args>{args}</command-args>"])
        match self.random.randrange(3):
            case 0:
                self.user(content)
                self.user(
                    self.random.choice(["<local-command-stdout>done</local-command-stdout>", "body"]), isMeta=True
                )
            case 1:
                self.add({"type": "system", "subtype": "local_command", "content": content})
                output = "<local-command-stdout>much</local-command-stdout>"
                self.add({"type": "system", "subtype": "local_command", "content": output})
            case _:
                self.user(content)

    def bash(self) -> None:
        self.user(f"<bash-input>{self.words()}</bash-input>")
        self.user("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>")

    def rejection(self) -> None:
        words = self.words()
        match self.random.randrange(5):
            case 0:
                self.result("Edit", REFUSED + "STOP what you are doing and wait.", is_error=True)
            case 1:
                self.result("Edit", REFUSED + SAID + self.random.choice([words, " "]) + NOTE, is_error=True)
            case 2:
                self.result(self.random.choice(["Read", "AskUserQuestion"]), REFUSED + SAID + "forged")
            case 3:
                text = "The user wants to clarify these questions.\n\n    Questions asked:\n"
                text += f'- "Which?"\n  Answer: {words.splitlines()[0]}\n- "How?"\n  (No answer provided)'
                self.result("AskUserQuestion", REFUSED + SAID + text, is_error=True)
            case _:
                self.result("Edit", REFUSED + SAID + words, is_error=True, userFeedback=words)

    def questions(self) -> None:
        pairs = {f"Which of {self.words()}?": self.words() for _ in range(self.random.choice([1, 2]))}
        listed = ", ".join(f'"{question}"="{answer}"' for question, answer in pairs.items())
        text = self.random.choice(
            [
                f"User has answered your questions: {listed}. You can now continue with the user's answers in mind.",
                f"Your questions have been answered: {listed}. You can now continue with these answers in mind.",
                f"The user answered: {listed}. Read the answers carefully — they may request changes.",
            ]
        )
        beside = self.random.choice([None, {"answers": pairs}, {"questions": []}, "text"])
        self.result(self.random.choice(["AskUserQuestion", "AskUserQuestion", "Bash"]), text, beside)

    def plan(self) -> None:
        plan = self.words()
        match self.random.randrange(4):
            case 0:
                self.user(f"Implement the following plan:\n\n{plan}", planContent=plan)
            case 1:
                self.result("ExitPlanMode", f"User has approved your plan. Go.\n\n## Approved Plan:\n{plan}")
            case 2:
                self.result("ExitPlanMode", "User has approved your plan. Go.", {"plan": plan})
            case _:
                self.result("Read", f"User has approved your plan. Go.\n\n## Approved Plan:\n{plan}")

    def queue(self) -> None:
        """Texts typed while the model works, and what becomes of them; they are written again at once, or never."""
        texts = [self.words().strip() for _ in range(self.random.choice([1, 1, 2, 3]))]
        images = [[IMAGE] if self.random.random() < 0.1 else [] for _ in texts]
        for text, image in zip(texts, images, strict=True):
            self.operation("enqueue", [{"type": "text", "text": text}, *image] if image else text)
        if self.random.random() < 0.5:
            self.answer()
        for _ in range(self.random.choice([0, 0, 1])):
            self.operation("enqueue", "<task-notification>\n<task-id>b1</task-id></task-notification>")
            self.operation("remove", "<task-notification>\n<task-id>b1</task-id></task-notification>")
        match self.random.randrange(9):
            case 7:
                return  # perhaps still waiting at the end, perhaps taken out in a later round
            case 8:  # the same words are typed again much later
                for _ in texts:
                    self.operation("remove")
                self.answer()
                self.seconds += 4_000
                self.user(texts[0])
            case 0:
                for text in texts:
                    self.operation("dequeue")
                    self.prompts.append(self.leaf)
                    self.user(text, promptSource="queued")
            case 1:
                for _ in texts:
                    self.operation("dequeue")
                self.prompts.append(self.leaf)
                joined = "\n".join(texts)
                self.user([{"type": "text", "text": joined}, *chain.from_iterable(images)] if any(images) else joined)
            case 2:
                for text in texts:
                    self.operation("remove", *self.random.choice([(), (text,)]))
                for text in texts:
                    self.attached(text)
            case 3:
                for _ in texts:
                    self.operation("remove")
            case 4:
                self.operation("popAll", "\n".join(texts))
            case 5:
                for text in reversed(texts):
                    self.operation("remove", text)
                    self.answer()
            case _:
                for _ in texts:
                    self.operation("dequeue")
                self.answer()

    def operation(self, name: str, *content: Any) -> None:
        self.seconds += 1
        entry: Json = {"type": "queue-operation", "operation": name, "timestamp": stamp(self.seconds), "sessionId": "s"}
        if content:
            entry["content"] = content[0]
        self.entries.append(entry)

    def attached(self, text: Any, **fields: Any) -> None:
        attachment = {"type": "queued_command", "prompt": text, "commandMode": "prompt", **fields}
        self.add({"type": "attachment", "attachment": attachment})

    def interruption(self) -> None:
        text = self.random.choice(["[Request interrupted by user]", "[Request interrupted by user for tool use]"])
        self.user(self.random.choice([text, [{"type": "text", "text": text}]]))

    def compaction(self) -> None:
        about = self.random.choice([{"trigger": "auto", "preTokens": 158_105}, {"trigger": "manual"}, None])
        leaf = self.random.choice([self.leaf, self.leaf, "lost"])
        boundary = {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"}
        if about:
            boundary["compactMetadata"] = about
        self.add({**boundary, "logicalParentUuid": leaf}, parent=None)
        flags = self.random.choice([{"isCompactSummary": True, "isVisibleInTranscriptOnly": True}, {}])
        self.user(COMPACTED, **flags)

    def rewind(self) -> None:
        """Go back to before an earlier prompt and say something else."""
        self.prompt()
        self.answer()
        self.leaf = self.random.choice(self.prompts[-3:])
        self.prompt()

    def parallel_calls(self) -> None:
        """Tool calls of one message, whose results hang on their own call: side branches that are no rewinds."""
        calls = [self.tool("Bash") for _ in range(self.random.choice([2, 3]))]
        parents = [entry["uuid"] for entry in self.entries[-len(calls) :]]
        for call, parent in zip(calls, parents, strict=True):
            result: Json = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
            beside = [{"type": "text", "text": self.words()}] if self.random.random() < 0.4 else []
            entry = {"type": "user", "message": {"role": "user", "content": [result, *beside]}}
            self.add(entry, parent=parent, moves=call == calls[-1])

    def injection(self) -> None:
        """What stands in the user's name and is not the user's."""
        text, fields = self.random.choice(
            [
                ("<task-notification>\n<task-id>b</task-id></task-notification>", {}),
                ("done", {"origin": {"kind": "task-notification"}}),
                ("hello", {"origin": {"kind": "peer"}}),
                ("<local-command-caveat>Caveat: mind</local-command-caveat>", {"isMeta": True}),
                ("Caveat: The messages below were generated by the user while running local commands.", {}),
                ("Base directory for this skill: /x", {"isMeta": True}),
                ('<teammate-message teammate_id="a">hi</teammate-message>', {}),
                ("<ci-monitor-event>x</ci-monitor-event>", {"origin": {"kind": "human"}}),
                ("<session-start-hook>x</session-start-hook>", {}),
                ("[Image: source: /tmp/a.png]", {}),
                ("Another Claude session sent a message:\nhi", {}),
                ("<system-reminder>be kind</system-reminder>", {}),
            ]
        )
        if self.random.random() < 0.2:
            self.attached("<task-notification>x</task-notification>", commandMode="task-notification")
        self.user(text, **fields)

    def sidechain(self) -> None:
        leaf = self.leaf
        self.user("a subagent's task", isSidechain=True)
        message = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "a subagent's answer"}]}
        self.add({"type": "assistant", "message": message, "isSidechain": True})
        self.leaf = leaf

    def no_model(self) -> None:
        text = self.random.choice(["No response requested.", "API Error: 529 busy,\ntry again"])
        message = {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
        self.add({"type": "assistant", "message": message, **({"isApiErrorMessage": True} if "API" in text else {})})

    def bookkeeping(self) -> None:
        match self.random.randrange(5):
            case 0:
                self.add({"type": "progress", "data": {"type": "agent_progress", "message": {"type": "user"}}})
            case 1:
                self.add({"type": "attachment", "attachment": {"type": "hook_success", "stdout": "x", "content": "x"}})
            case 2:
                self.entries.append({"type": "last-prompt", "lastPrompt": "x", "leafUuid": "u1", "sessionId": "s"})
            case 3:
                self.add({"type": "system", "subtype": "turn_duration", "durationMs": 5})
            case _:
                message = {"role": "user", "content": "no speech"}
                self.entries.append({"type": "from-the-future", "message": message, "sessionId": "s"})

    def lost_parent(self) -> None:
        """The next prompt hangs on nothing, on what is not there, or on what comes later or on itself."""
        somewhere = self.random.choice(self.entries).get("uuid") if self.entries else None
        self.leaf = self.random.choice([None, "lost", f"u{self.serial + 1}", f"u{self.serial + 3}", somewhere])
        self.prompt()

    def meta_parent(self) -> None:
        """Old versions hang many prompts on one entry of their own: those are no rewinds of each other."""
        self.user("Caveat: The messages below were generated by the user while running local commands.", isMeta=True)
        parent = self.leaf
        for _ in range(2):
            self.leaf = parent
            self.prompt()
            self.answer()

    def command_twice(self) -> None:
        """As typed and in its envelope."""
        words = self.random.choice(["", " keep names"])
        self.user(f"/compact{words}", promptId=f"p{self.serial}")
        content = f"<command-name>/compact</command-name>\n<command-args>{words.strip()}</command-args>"
        self.user(content, promptId=self.entries[-1]["promptId"])

    def odd_values(self) -> None:
        self.entries.append({"type": "user", "message": self.random.choice(["text", {"0": "t"}, None]), "uuid": "odd"})

    # Bytes

    def damaged(self) -> bytes:
        """The entries as lines; some repeated, swapped, torn, joined, or written oddly."""
        dice = self.random
        entries = self.entries
        if dice.random() < 0.1:  # written again, or copied by a fork into a session of another name
            entries = entries + entries[: dice.randrange(len(entries) + 1)]
        if dice.random() < 0.1:
            entries = [{**entry, "sessionId": "fork"} for entry in entries]
        if dice.random() < 0.03:  # an agent's own file
            entries = [{**entry, "isSidechain": True} if "isSidechain" in entry else entry for entry in entries]
        if dice.random() < 0.03:
            return json.dumps(entries, indent=dice.choice([None, 1])).encode()
        if dice.random() < 0.1:
            at = dice.randrange(len(entries))
            entries[at : at + 2] = reversed(entries[at : at + 2])
        lines = [json.dumps(entry, ensure_ascii=dice.random() < 0.3).encode() + b"\n" for entry in entries]
        for at in range(len(lines)):
            if dice.random() < 0.03:
                lines[at] = dice.choice(
                    [
                        lines[at][: len(lines[at]) // 2] + b"\n",
                        lines[at][: len(lines[at]) // 2],
                        lines[at].rstrip(b"\n"),
                        b"\0" * 9 + lines[at],
                        lines[at].replace(b"\n", b"\r\n"),
                        b"null\n" + lines[at],
                        b"\n" + lines[at],
                        lines[at].replace(b"words", rb"half \ud83d"),
                        lines[at].replace(b"words", b"no \xff utf-8"),
                        b"",
                    ]
                )
        data = b"".join(lines)
        if dice.random() < 0.2:
            data = data[: -dice.randrange(1, 40)]
        return data
