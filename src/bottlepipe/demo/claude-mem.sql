-- The demo's claude-mem database: invented, in the shape that claude-mem 13.25 gives its tables.
PRAGMA page_size = 1024;
PRAGMA journal_mode = DELETE;

CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY,
  content_session_id TEXT NOT NULL,
  memory_session_id TEXT UNIQUE,
  project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude',
  user_prompt TEXT,
  started_at TEXT NOT NULL,
  started_at_epoch INTEGER NOT NULL,
  completed_at TEXT,
  completed_at_epoch INTEGER,
  status TEXT NOT NULL DEFAULT 'active',
  worker_port INTEGER,
  prompt_counter INTEGER DEFAULT 0,
  custom_title TEXT,
  observed_model TEXT,
  observed_billing TEXT,
  UNIQUE (platform_source, content_session_id)
);

CREATE TABLE user_prompts (
  id INTEGER PRIMARY KEY,
  session_db_id INTEGER REFERENCES sdk_sessions (id),
  content_session_id TEXT NOT NULL,
  prompt_number INTEGER NOT NULL,
  prompt_text TEXT NOT NULL,
  created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL,
  synced_at INTEGER,
  origin_device_id TEXT,
  origin_local_id TEXT,
  sync_rev TEXT NOT NULL DEFAULT '1'
);

CREATE TABLE observations (
  id INTEGER PRIMARY KEY,
  memory_session_id TEXT NOT NULL REFERENCES sdk_sessions (memory_session_id),
  project TEXT NOT NULL,
  text TEXT,
  type TEXT NOT NULL,
  title TEXT,
  subtitle TEXT,
  facts TEXT,
  narrative TEXT,
  concepts TEXT,
  files_read TEXT,
  files_modified TEXT,
  prompt_number INTEGER,
  created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL,
  discovery_tokens INTEGER DEFAULT 0,
  content_hash TEXT,
  generated_by_model TEXT,
  relevance_count INTEGER DEFAULT 0,
  merged_into_project TEXT,
  agent_type TEXT,
  agent_id TEXT,
  metadata TEXT,
  synced_at INTEGER,
  origin_device_id TEXT,
  origin_local_id TEXT,
  sync_rev TEXT NOT NULL DEFAULT '1'
);

CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY,
  memory_session_id TEXT NOT NULL REFERENCES sdk_sessions (memory_session_id),
  project TEXT NOT NULL,
  request TEXT,
  investigated TEXT,
  learned TEXT,
  completed TEXT,
  next_steps TEXT,
  files_read TEXT,
  files_edited TEXT,
  notes TEXT,
  prompt_number INTEGER,
  created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL,
  discovery_tokens INTEGER DEFAULT 0,
  merged_into_project TEXT,
  synced_at INTEGER,
  origin_device_id TEXT,
  origin_local_id TEXT,
  sync_rev TEXT NOT NULL DEFAULT '1'
);

CREATE TABLE tool_uses (
  id INTEGER PRIMARY KEY,
  tool_use_id TEXT NOT NULL,
  content_session_id TEXT NOT NULL,
  memory_session_id TEXT,
  session_db_id INTEGER,
  project TEXT NOT NULL,
  platform_source TEXT NOT NULL DEFAULT 'claude',
  tool_name TEXT NOT NULL,
  tool_input TEXT,
  tool_response TEXT,
  cwd TEXT,
  prompt_number INTEGER,
  agent_type TEXT,
  agent_id TEXT,
  observation_id INTEGER,
  or_generation_id TEXT,
  or_session_id TEXT,
  content_hash TEXT,
  created_at TEXT NOT NULL,
  created_at_epoch INTEGER NOT NULL,
  UNIQUE (content_session_id, tool_use_id)
);

CREATE INDEX observations_by_memory_id ON observations (memory_session_id);
CREATE INDEX summaries_by_memory_id ON session_summaries (memory_session_id);
CREATE INDEX prompts_by_content_id ON user_prompts (content_session_id);

INSERT INTO sdk_sessions (id, content_session_id, memory_session_id, project, started_at, started_at_epoch, observed_model) VALUES
  (7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', '2026-03-30T08:02:11.180Z', 1774857731180, 'claude-haiku-5');

INSERT INTO user_prompts (id, session_db_id, content_session_id, prompt_number, prompt_text, created_at, created_at_epoch) VALUES
  (311, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 1, 'Since the clocks changed on Sunday, tidepool prints every tide an hour late:

    $ tidepool next --station saltwick
    low water 15:41

The harbour board says 14:41. Can you find out why, before you change anything?', '2026-03-30T08:02:11.180Z', 1774857731180),
  (312, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 2, 'Good find. Fix it, and add a test for the night the clocks change.', '2026-03-30T08:06:02.560Z', 1774857962560),
  (313, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 3, '/review src/tidepool/predict.py', '2026-03-30T08:10:45.040Z', 1774858245040),
  (314, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 4, 'Do both. Then add `tidepool week`, a table of seven days.', '2026-03-30T08:15:30.760Z', 1774858530760),
  (315, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 5, 'and mark spring tides with a star', '2026-03-30T08:16:33.370Z', 1774858593370),
  (316, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 6, '[Image #1] This is the board at the quay. Can the table look like that, heights in metres on the right?', '2026-03-30T08:24:03.650Z', 1774859043650),
  (317, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 7, 'Compare our March against the gauge.  You find both in the environment as GAUGE_USER and GAUGE_PASS.', '2026-03-30T08:31:11.950Z', 1774859471950),
  (318, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 8, 'Clean up the tests, they are a mess.', '2026-03-30T08:35:02.150Z', 1774859702150),
  (319, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 9, 'No, no classes. I only meant: one fixture for the station instead of five copies.', '2026-03-30T08:35:49.950Z', 1774859749950),
  (320, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 10, 'Morning. Write the README section about `tidepool week`, ten lines at most.', '2026-03-31T07:12:30.450Z', 1774941150450),
  (321, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 11, 'Publish it as 0.4.0.', '2026-03-31T07:20:05.550Z', 1774941605550),
  (322, 7, '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', 12, 'Bump the version to 0.4.0 and write the changelog. Don''t publish yet, the council sees it first.', '2026-03-31T07:22:14.250Z', 1774941734250);

-- 2101 to 2107 and 2112 to 2114 are placed by the tool calls below, 2108 and 2109 by their prompt's number, 2110 and
-- 2111 by time alone. 2107 was observed late: its number names the prompt after the one that it belongs to. 2113 belongs
-- to a branch that the user rewound.
INSERT INTO observations (id, memory_session_id, project, type, title, subtitle, narrative, facts, files_read, files_modified, prompt_number, created_at, created_at_epoch) VALUES
  (2101, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'discovery', 'The summer hour is added in two places', 'predict.py and table.py both shift the clock', 'predict.py adds the offset of the moment of import, e.g. 3600 s since Sunday, and table.py adds tm_isdst again. Both were zero all winter.', '[]', '["src/tidepool/predict.py", "src/tidepool/table.py"]', '[]', 1, '2026-03-30T08:02:16.000Z', 1774857736000),
  (2102, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'discovery', 'A winter date printed in summer is two hours off', NULL, 'Asked for 10 January, tidepool printed 11:12 where UTC is 09:12; for 10 July the error is one hour.', '[]', '[]', '[]', 1, '2026-03-30T08:02:24.000Z', 1774857744000),
  (2103, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'bugfix', 'predict() returns aware datetimes', 'Conversion moved from format_time', 'The tide''s own date decides the offset, through zoneinfo. format_time stays as it is, since the printer driver calls it.', '[]', '[]', '["src/tidepool/predict.py"]', 2, '2026-03-30T08:06:45.500Z', 1774858005500),
  (2104, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'change', 'Test for the night the clocks change; 41 tests pass', NULL, NULL, '[]', '[]', '["tests/test_clock_change.py"]', 2, '2026-03-30T08:07:02.000Z', 1774858022000),
  (2105, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'discovery', 'Review of predict.py: zone read per tide, unknown zone raises late', NULL, 'No fault found in the arithmetic. The zone should be read once, and checked when the station file is read.', '[]', '["src/tidepool/predict.py"]', '[]', 3, '2026-03-30T08:10:50.000Z', 1774858250000),
  (2106, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'refactor', 'Station files are checked when they are read', 'read_zone names the file', 'An unknown zone now raises StationError with the file''s name vs. a bare ZoneInfoNotFoundError before.', '[]', '[]', '["src/tidepool/stations.py"]', 4, '2026-03-30T08:15:36.400Z', 1774858536400),
  (2107, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'feature', 'week.py writes seven days of tides', NULL, 'The station''s clock rules the table; a missing low water is a dash.', '[]', '[]', '["src/tidepool/week.py"]', 5, '2026-03-30T08:16:33.100Z', 1774858593100),
  (2108, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'feature', 'Spring tides carry a star', NULL, 'is_spring() marks the two days after new and full moon. The table for Saltwick was printed and looks right.', '[]', '[]', '["src/tidepool/week.py"]', 5, '2026-03-30T08:16:48.800Z', 1774858608800),
  (2109, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'change', NULL, 'Heights in metres stand right of the times', 'week.py prints each height with one decimal, like the board at the quay.', '[]', '[]', '["src/tidepool/week.py"]', 6, '2026-03-30T08:24:12.300Z', 1774859052300),
  (2110, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'discovery', 'March differs from the gauge by 3 minutes in the median', NULL, '118 tides compared; the worst differs by 11 minutes, in the storm of 14 March. The account <private>ada-saltwick / limpet-4-winkle</private> was read from the environment.', '[]', '["tools/compare_gauge.py"]', '[]', NULL, '2026-03-30T08:31:26.300Z', 1774859486300),
  (2111, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'refactor', 'One fixture for the station in conftest.py', NULL, 'Five copies of the Saltwick station became one fixture; 47 tests pass.', '[]', '[]', '["tests/conftest.py"]', NULL, '2026-03-30T08:35:56.400Z', 1774859756400),
  (2112, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'change', 'README has a section on tidepool week', NULL, 'Eight lines and the table of this week.', '[]', '[]', '["README.md"]', 10, '2026-03-31T07:12:38.500Z', 1774941158500),
  (2113, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'change', 'tidepool 0.4.0 was built', NULL, 'The sdist was built and not uploaded.', '[]', '[]', '[]', 11, '2026-03-31T07:20:19.200Z', 1774941619200),
  (2114, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'change', 'Version 0.4.0 and its changelog', NULL, 'Three entries: the clock fix, tidepool week, and checked station files. Nothing is published.', '[]', '[]', '["pyproject.toml", "CHANGELOG.md"]', 12, '2026-03-31T07:22:21.400Z', 1774941741400);

INSERT INTO tool_uses (id, tool_use_id, content_session_id, memory_session_id, session_db_id, project, tool_name, cwd, prompt_number, observation_id, created_at, created_at_epoch) VALUES
  (1, 'toolu_01Q1655mjLSjFbDY3WnrasSc', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Read', '/home/ada/tidepool', 1, 2101, '2026-03-30T08:02:16.000Z', 1774857736000),
  (2, 'toolu_01Cb7t0PNDEveeXVu47LIUbb', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Grep', '/home/ada/tidepool', 1, 2101, '2026-03-30T08:02:16.000Z', 1774857736000),
  (3, 'toolu_01dpLMVYgtrw0CT15GxwFHrO', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Bash', '/home/ada/tidepool', 1, 2102, '2026-03-30T08:02:24.000Z', 1774857744000),
  (4, 'toolu_014xzdSR4XjHAJVdjxsIGF7e', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Edit', '/home/ada/tidepool', 2, 2103, '2026-03-30T08:06:45.500Z', 1774858005500),
  (5, 'toolu_01PK3l8Sh1r6qLMcn4uXKtUy', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Write', '/home/ada/tidepool', 2, 2104, '2026-03-30T08:07:02.000Z', 1774858022000),
  (6, 'toolu_01aR3BTStOp22KgHKTz2uhnh', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Bash', '/home/ada/tidepool', 2, 2104, '2026-03-30T08:07:02.000Z', 1774858022000),
  (7, 'toolu_01MZCI1GSfGXCLGAXvwvAsib', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Read', '/home/ada/tidepool', 3, 2105, '2026-03-30T08:10:50.000Z', 1774858250000),
  (8, 'toolu_01rS5fQBs8jc0LYMq3ZUEuAs', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Edit', '/home/ada/tidepool', 4, 2106, '2026-03-30T08:15:36.400Z', 1774858536400),
  (9, 'toolu_01PXpREWb9m2EIht00wTaCzr', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Write', '/home/ada/tidepool', 5, 2107, '2026-03-30T08:16:33.100Z', 1774858593100),
  (10, 'toolu_01iRJq1LmHCOYeBVvN3H3FcE', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Edit', '/home/ada/tidepool', 10, 2112, '2026-03-31T07:12:38.500Z', 1774941158500),
  (11, 'toolu_018EsO8ngIbSpR2KaqhHWaJL', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Bash', '/home/ada/tidepool', 11, 2113, '2026-03-31T07:20:19.200Z', 1774941619200),
  (12, 'toolu_010OXmCIBv0FCWpSPYhnXD9a', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Edit', '/home/ada/tidepool', 12, 2114, '2026-03-31T07:22:21.400Z', 1774941741400),
  (13, 'toolu_01xV8j9pRTAoFbv3vB6OlWDg', '0b0771e5-5a3e-4c55-9d1c-b0771eb0771e', '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 7, 'tidepool', 'Edit', '/home/ada/tidepool', 12, 2114, '2026-03-31T07:22:21.400Z', 1774941741400);

INSERT INTO session_summaries (id, memory_session_id, project, request, investigated, learned, completed, next_steps, prompt_number, created_at, created_at_epoch) VALUES
  (88, '7d1fe0a2-93c4-4a8e-b6a5-1c5e9f00d2b7', 'tidepool', 'Find out why tides are printed an hour late, fix it, add a week table', 'predict.py, table.py, the station files', 'The summer hour was added twice; the offset must be that of the tide''s own date', 'Clock fix with a test, tidepool week with heights and stars, README, version 0.4.0, changelog', 'Wait for the council''s word, then publish tidepool 0.4.0', 12, '2026-03-31T07:22:40.000Z', 1774941760000);

VACUUM;
