-- One session id, used by Claude Code and by Codex: the prompt numbers of each begin with 1.
INSERT INTO sdk_sessions (id, content_session_id, memory_session_id, project, platform_source) VALUES
  (2, '71de9001-0000-4000-8000-00000000c0de', 'observer-2', 'tidepool', 'codex');
INSERT INTO user_prompts (id, session_db_id, prompt_number, prompt_text, created_at) VALUES
  (11, 1, 1, 'Claude, first', '2025-11-18T09:00:00.000Z'),
  (12, 2, 1, 'Codex, first', '2025-11-18T09:10:00.000Z'),
  (13, 1, 2, 'Claude, second', '2025-11-18T09:20:00.000Z'),
  -- An upgraded row that names no session row: it counts as Claude's.
  (14, NULL, 3, 'Claude, third', '2025-11-18T09:30:00.000Z'),
  (15, 2, 2, 'Codex, second', '2025-11-18T09:40:00.000Z');
INSERT INTO observations (id, memory_session_id, prompt_number, created_at, title) VALUES
  (101, 'observer-1', 1, '2025-11-18T09:00:05.000Z', 'under Claude, first'),
  (102, 'observer-2', 1, '2025-11-18T09:10:05.000Z', 'under Codex, first'),
  (103, 'observer-1', 2, '2025-11-18T09:20:05.000Z', 'under Claude, second'),
  (104, 'observer-1', 3, '2025-11-18T09:30:05.000Z', 'under Claude, third'),
  (105, 'observer-2', 2, '2025-11-18T09:40:05.000Z', 'under Codex, second');
