-- expect: {"session": "ten-1", "prompts": [1, 2], "observations": [1, 2], "summaries": [1], "rows": [4], "project": "kiln"}
-- The community edge: observations and summaries may name the session themselves; a prompt without its session row's id.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, content_session_id TEXT NOT NULL, memory_session_id TEXT UNIQUE, project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude', started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY, session_db_id INTEGER, content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL,
  prompt_text TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, type TEXT NOT NULL, title TEXT,
  prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, content_session_id TEXT);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL, content_session_id TEXT);
INSERT INTO sdk_sessions VALUES (4, 'ten-1', 'observer-new', 'kiln', 'claude', '2026-07-08T08:00:00Z', 1783497600000);
INSERT INTO user_prompts VALUES
  (1, 4, 'ten-1', 1, 'Glaze the pots', '2026-07-08T08:00:00Z', 1783497600000),
  (2, NULL, 'ten-1', 2, 'Fire them', '2026-07-08T08:05:00Z', 1783497900000);
INSERT INTO observations VALUES
  (1, 'observer-lost', 'kiln', 'change', 'Glazed', 1, '2026-07-08T08:01:00Z', 1783497660000, 'ten-1'),
  (2, 'observer-new', 'kiln', 'change', 'Fired', 2, '2026-07-08T08:06:00Z', 1783497960000, NULL);
INSERT INTO session_summaries VALUES
  (1, 'observer-lost', 'kiln', 'Glaze', '2026-07-08T08:04:00Z', 1783497840000, 'ten-1');
