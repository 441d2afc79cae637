INSERT INTO observations (id, prompt_number, created_at, created_at_epoch, title) VALUES
  (101, NULL, '2025-11-18T08:55:00.000Z', NULL, 'before the first prompt, by time'),
  (102, NULL, '2025-11-18T09:00:03.000Z', NULL, 'under the first prompt, by time'),
  -- Written by an old install, in seconds.
  (103, NULL, '', 1763457060, 'under the second prompt, by a time in seconds'),
  -- A prompt that nobody stored: time decides.
  (104, 9, '2025-11-18T09:00:04.000Z', NULL, 'under the first prompt, with an unknown number'),
  (105, NULL, '', 0, 'nowhere: neither number nor time'),
  (106, 9, 'yesterday', 0, 'nowhere: an unknown number and no time');
