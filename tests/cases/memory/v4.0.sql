-- expect: {"session": "old-1", "prompts": [], "observations": [1, 2], "summaries": [1], "rows": [1], "project": "kiln"}
-- expect: {"session": "old-2", "prompts": [], "observations": [], "summaries": [], "rows": [2], "project": "kiln"}
-- The oldest shape: no user_prompts, the old column names, an observer that never answered.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, claude_session_id TEXT UNIQUE NOT NULL, sdk_session_id TEXT UNIQUE, project TEXT NOT NULL,
  user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, prompt_counter INTEGER DEFAULT 0);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT,
  subtitle TEXT, facts TEXT, narrative TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT, investigated TEXT,
  learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL);
CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE, applied_at TEXT);
INSERT INTO schema_versions VALUES (1, 9, '2025-10-19T08:00:00Z');
INSERT INTO sdk_sessions VALUES
  (1, 'old-1', 'observer-1', 'kiln', 'Glaze the pots', '2025-10-19T08:00:00Z', 1760860800000, 2),
  (2, 'old-2', NULL, 'kiln', NULL, '2025-10-19T09:00:00Z', 1760864400000, 1);
INSERT INTO observations (id, sdk_session_id, project, type, title, narrative, prompt_number, created_at, created_at_epoch)
VALUES
  (1, 'observer-1', 'kiln', 'discovery', 'The kiln is cold', NULL, 1, '2025-10-19T08:01:00Z', 1760860860000),
  (2, 'observer-1', 'kiln', 'change', 'The kiln was lit', 'With gas.', 2, '2025-10-19T08:02:00Z', 1760860920000);
INSERT INTO session_summaries (id, sdk_session_id, project, request, created_at, created_at_epoch)
VALUES (1, 'observer-1', 'kiln', 'Glaze the pots', '2025-10-19T08:03:00Z', 1760860980000);
