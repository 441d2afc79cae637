-- expect: {"session": "now-1", "prompts": [1, 2, 3], "observations": [1, 2, 3, 4], "summaries": [1, 2], "rows": [2, 1], "project": "kiln"}
-- expect: {"session": "observer-lost", "prompts": [], "observations": [3], "summaries": [2], "rows": [3], "project": "kiln"}
-- Two platforms share one session id. tool_uses knows whose the lost observations are, and a stub row claims one as well.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, content_session_id TEXT NOT NULL, memory_session_id TEXT UNIQUE, project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude', started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL,
  observed_model TEXT, observed_billing TEXT, UNIQUE (platform_source, content_session_id));
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY, session_db_id INTEGER, content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL,
  prompt_text TEXT NOT NULL, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, sync_rev TEXT DEFAULT '1');
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, type TEXT NOT NULL, title TEXT,
  subtitle TEXT, facts TEXT, narrative TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL, agent_type TEXT);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL);
CREATE TABLE tool_uses (
  id INTEGER PRIMARY KEY, tool_use_id TEXT NOT NULL, content_session_id TEXT NOT NULL, memory_session_id TEXT,
  session_db_id INTEGER, prompt_number INTEGER, observation_id INTEGER, created_at_epoch INTEGER NOT NULL,
  UNIQUE (content_session_id, tool_use_id));
INSERT INTO sdk_sessions (id, content_session_id, memory_session_id, project, platform_source, started_at, started_at_epoch)
VALUES
  (1, 'now-1', 'observer-codex', 'codex-kiln', 'codex', '2026-09-20T08:00:00Z', 1789891200000),
  (2, 'now-1', 'observer-claude', 'kiln', 'claude', '2026-09-20T08:00:00Z', 1789891200000),
  (3, 'observer-lost', 'observer-lost', 'kiln', 'claude', '2026-09-20T08:00:00Z', 1789891200000);
INSERT INTO user_prompts (id, session_db_id, content_session_id, prompt_number, prompt_text, created_at, created_at_epoch)
VALUES
  (1, 2, 'now-1', 1, 'Glaze the pots', '2026-09-20T08:00:00Z', 1789891200000),
  (2, 1, 'now-1', 1, 'Glaze with codex', '2026-09-20T08:10:00Z', 1789891800000),
  (3, NULL, 'now-1', 2, 'Fire them', '2026-09-20T08:20:00Z', 1789892400000);
INSERT INTO observations (id, memory_session_id, project, type, title, facts, prompt_number, created_at, created_at_epoch)
VALUES
  (1, 'observer-claude', 'kiln', 'change', 'Joined', '["a"', 1, '2026-09-20T08:01:00Z', 1789891260000),
  (2, 'observer-codex', 'kiln', 'change', 'Joined by codex', '[]', 1, '2026-09-20T08:11:00Z', 1789891860000),
  (3, 'observer-lost', 'kiln', 'change', 'By the observer of a tool use', NULL, 1, '2026-09-20T08:12:00Z', 1789891920000),
  (4, 'observer-gone', 'kiln', 'change', 'By its own number', '', 2, '2026-09-20T08:21:00Z', 1789892460000);
INSERT INTO session_summaries VALUES
  (1, 'observer-codex', 'kiln', 'Codex', '2026-09-20T08:15:00Z', 1789892100000),
  (2, 'observer-lost', 'kiln', 'Lost', '2026-09-20T08:16:00Z', 1789892160000);
INSERT INTO tool_uses VALUES
  (1, 'toolu_1', 'now-1', 'observer-lost', 2, 1, NULL, 1789891900000),
  (2, 'toolu_2', 'now-1', 'observer-other', NULL, 2, 4, 1789892450000),
  (3, 'toolu_3', 'now-1', NULL, NULL, 0, 4, 1789892451000);
