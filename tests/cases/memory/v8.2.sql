-- expect: {"session": "old-1", "prompts": [1], "observations": [1, 2], "summaries": [1], "rows": [1], "project": "kiln"}
-- The last shape with the old names. One table was renamed already, which a half-done upgrade leaves behind.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, claude_session_id TEXT UNIQUE NOT NULL, sdk_session_id TEXT UNIQUE, project TEXT NOT NULL,
  started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY, claude_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, type TEXT NOT NULL, title TEXT,
  prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL);
INSERT INTO sdk_sessions VALUES (1, 'old-1', 'observer-1', 'kiln', '2025-12-20T08:00:00Z', 1766217600000);
INSERT INTO user_prompts VALUES (1, 'old-1', 1, 'Glaze the pots', '2025-12-20T08:00:00Z', 1766217600000);
INSERT INTO observations VALUES
  (1, 'observer-1', 'kiln', 'change', 'Glazed', 1, '2025-12-20T08:01:00Z', 1766217660000),
  (2, 'observer-1', 'kiln', 'change', 'Dried', 1, '2025-12-20T08:02:00Z', 1766217720000);
INSERT INTO session_summaries VALUES (1, 'observer-1', 'kiln', 'Glaze', '2025-12-20T08:03:00Z', 1766217780000);
