-- expect: {"session": "fifteen-1", "prompts": [1, 2], "observations": [1, 2, 3, 4], "summaries": [1], "rows": [1], "project": "kiln"}
-- expect: {"session": "fifteen-1-2", "prompts": [], "observations": [6], "summaries": [], "rows": [], "project": null}
-- The observer's id changed four times and the observations stayed behind. Number 5 names nobody, numbers 6 to 8
-- another session.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, content_session_id TEXT NOT NULL, memory_session_id TEXT UNIQUE, project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude', started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY, session_db_id INTEGER, content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL,
  prompt_text TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, type TEXT NOT NULL, title TEXT,
  prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL);
INSERT INTO sdk_sessions VALUES
  (1, 'fifteen-1', 'observer-5', 'kiln', 'claude', '2026-08-19T08:00:00Z', 1787126400000),
  (2, 'fifteen-9', 'observer-9', 'kiln', 'claude', '2026-08-19T08:00:00Z', 1787126400000);
INSERT INTO user_prompts VALUES
  (1, 1, 'fifteen-1', 1, 'Glaze the pots', '2026-08-19T08:00:00Z', 1787126400000),
  (2, 1, 'fifteen-1', 2, 'Fire them', '2026-08-19T08:30:00Z', 1787128200000);
INSERT INTO observations VALUES
  (1, 'fifteen-1', 'kiln', 'change', 'Own id', 1, '2026-08-19T08:01:00Z', 1787126460000),
  (2, 'gemini-fifteen-1-1787126400001', 'kiln', 'change', 'Gemini', 1, '2026-08-19T08:02:00Z', 1787126520000),
  (3, 'openrouter-fifteen-1-1787126400002', 'kiln', 'change', 'OpenRouter', 1, '2026-08-19T08:03:00Z', 1787126580000),
  (4, 'observer-5', 'kiln', 'change', 'Joined', 2, '2026-08-19T08:31:00Z', 1787128260000),
  (5, 'observer-2', 'kiln', 'change', 'Lost', 1, '2026-08-19T08:04:00Z', 1787126640000),
  (6, 'gemini-fifteen-1-2-1787126400003', 'kiln', 'change', 'Longer id', 1, '2026-08-19T08:05:00Z', 1787126700000),
  (7, 'observer-9', 'kiln', 'change', 'At the next bench', 1, '2026-08-19T08:06:00Z', 1787126760000),
  (8, 'fifteen-9', 'kiln', 'change', 'Still at the next bench', 1, '2026-08-19T08:07:00Z', 1787126820000);
INSERT INTO session_summaries VALUES
  (1, 'openrouter-fifteen-1-1787126400002', 'kiln', 'Glaze', '2026-08-19T08:10:00Z', 1787127000000);
