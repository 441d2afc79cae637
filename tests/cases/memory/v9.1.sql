-- expect: {"session": "nine-1", "prompts": [1, 2], "observations": [1], "summaries": [1], "rows": [1], "project": "kiln"}
-- The new names. Another session of the same project is not mixed in.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, content_session_id TEXT UNIQUE NOT NULL, memory_session_id TEXT UNIQUE, project TEXT NOT NULL,
  user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY, content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT, type TEXT NOT NULL,
  title TEXT, subtitle TEXT, narrative TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, next_steps TEXT,
  prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
INSERT INTO sdk_sessions VALUES
  (1, 'nine-1', 'observer-1', 'kiln', '<private>raw</private>', '2026-02-08T08:00:00Z', 1770537600000),
  (2, 'nine-2', 'observer-2', 'kiln', NULL, '2026-02-08T08:00:00Z', 1770537600000);
INSERT INTO user_prompts VALUES
  (1, 'nine-1', 1, 'Glaze the pots', '2026-02-08T08:00:00Z', 1770537600000),
  (2, 'nine-1', 2, '[media prompt]', '2026-02-08T08:05:00Z', 1770537900000),
  (3, 'nine-2', 1, 'Sweep the floor', '2026-02-08T08:00:00Z', 1770537600000);
INSERT INTO observations (id, memory_session_id, project, type, title, prompt_number, created_at, created_at_epoch) VALUES
  (1, 'observer-1', 'kiln', 'change', 'Glazed', 1, '2026-02-08T08:01:00Z', 1770537660000),
  (2, 'observer-2', 'kiln', 'change', 'Swept', 1, '2026-02-08T08:01:00Z', 1770537660000);
INSERT INTO session_summaries VALUES
  (1, 'observer-1', 'kiln', 'Glaze', 'Fire', 1, '2026-02-08T08:10:00Z', 1770538200000),
  (2, 'observer-2', 'kiln', 'Sweep', NULL, 1, '2026-02-08T08:10:00Z', 1770538200000);
