-- expect: {"session": "old-1", "prompts": [1, 2, 3], "observations": [1], "summaries": [], "rows": [7], "project": "kiln"}
-- The first user_prompts, under the old names. The observer's id is the session's own; the session row lost it later.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY, claude_session_id TEXT UNIQUE NOT NULL, sdk_session_id TEXT UNIQUE, project TEXT NOT NULL,
  user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY, claude_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY, sdk_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT,
  subtitle TEXT, narrative TEXT, prompt_number INTEGER, created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
INSERT INTO sdk_sessions VALUES (7, 'old-1', NULL, 'kiln', NULL, '2025-10-21T08:00:00Z', 1761033600000);
INSERT INTO user_prompts VALUES
  (1, 'old-1', 1, 'Glaze <private>grandmother''s</private> pots', '2025-10-21T08:00:00Z', 1761033600000),
  (2, 'old-1', 2, '<private>the recipe</private>', '2025-10-21T08:05:00Z', 1761033900000),
  (3, 'old-1', 3, 'Fire them', '2025-10-21T08:10:00Z', 1761034200000);
INSERT INTO observations (id, sdk_session_id, project, text, type, prompt_number, created_at, created_at_epoch)
VALUES (1, 'old-1', 'kiln', 'Only the old text column is set', 'discovery', 3, '2025-10-21T08:11:00Z', 1761034260000);
