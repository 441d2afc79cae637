-- What every memory.sql here fills: claude-mem 13.25's tables with the columns that a bottle depends on, and the one
-- session row that most cases need.
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY,
  content_session_id TEXT NOT NULL,
  memory_session_id TEXT UNIQUE,
  project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude',
  user_prompt TEXT,
  started_at TEXT NOT NULL DEFAULT '2025-11-18T09:00:00.000Z',
  started_at_epoch INTEGER NOT NULL DEFAULT 1763456400000,
  UNIQUE (platform_source, content_session_id)
);
CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY,
  session_db_id INTEGER DEFAULT 1,
  content_session_id TEXT NOT NULL DEFAULT '71de9001-0000-4000-8000-00000000c0de',
  prompt_number INTEGER NOT NULL,
  prompt_text TEXT NOT NULL,
  created_at TEXT NOT NULL,
  created_at_epoch INTEGER
);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY,
  memory_session_id TEXT NOT NULL DEFAULT 'observer-1',
  project TEXT NOT NULL DEFAULT 'tidepool',
  text TEXT,
  type TEXT NOT NULL DEFAULT 'change',
  title TEXT,
  subtitle TEXT,
  narrative TEXT,
  facts TEXT,
  prompt_number INTEGER,
  created_at TEXT NOT NULL,
  created_at_epoch INTEGER
);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY,
  memory_session_id TEXT NOT NULL DEFAULT 'observer-1',
  project TEXT NOT NULL DEFAULT 'tidepool',
  request TEXT,
  investigated TEXT,
  learned TEXT,
  completed TEXT,
  next_steps TEXT,
  notes TEXT,
  prompt_number INTEGER,
  created_at TEXT NOT NULL,
  created_at_epoch INTEGER
);
CREATE TABLE tool_uses (
  id INTEGER PRIMARY KEY,
  tool_use_id TEXT NOT NULL,
  content_session_id TEXT NOT NULL DEFAULT '71de9001-0000-4000-8000-00000000c0de',
  memory_session_id TEXT DEFAULT 'observer-1',
  session_db_id INTEGER DEFAULT 1,
  observation_id INTEGER
);
-- An epoch that a case leaves out is that of the ISO time beside it.
CREATE TRIGGER prompt_epoch AFTER INSERT ON user_prompts WHEN new.created_at_epoch IS NULL BEGIN
  UPDATE user_prompts SET created_at_epoch = round((julianday(new.created_at) - 2440587.5) * 86400000) WHERE id = new.id;
END;
CREATE TRIGGER observation_epoch AFTER INSERT ON observations WHEN new.created_at_epoch IS NULL BEGIN
  UPDATE observations SET created_at_epoch = round((julianday(new.created_at) - 2440587.5) * 86400000) WHERE id = new.id;
END;
CREATE TRIGGER summary_epoch AFTER INSERT ON session_summaries WHEN new.created_at_epoch IS NULL BEGIN
  UPDATE session_summaries SET created_at_epoch = round((julianday(new.created_at) - 2440587.5) * 86400000) WHERE id = new.id;
END;
INSERT INTO sdk_sessions (id, content_session_id, memory_session_id, project) VALUES
  (1, '71de9001-0000-4000-8000-00000000c0de', 'observer-1', 'tidepool');
