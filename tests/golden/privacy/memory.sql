-- The raw first prompt of a session: never read.
UPDATE sdk_sessions SET user_prompt = 'CANARY-30';
INSERT INTO user_prompts (id, prompt_number, prompt_text, created_at) VALUES
  (11, 1, 'A prompt with an end.', '2025-11-18T09:00:00.100Z'),
  -- Stored raw, as before 6.4; the transcript has it.
  (12, 2, '<private>CANARY-04</private>', '2025-11-18T09:01:00.100Z'),
  -- Stored raw, and nowhere else.
  (13, 3, 'Lost to <private>CANARY-31</private> the transcript', '2025-11-18T09:20:00.000Z'),
  (14, 4, '<private>CANARY-32</private>', '2025-11-18T09:21:00.000Z');
INSERT INTO observations (id, prompt_number, created_at, type, title, subtitle, narrative, text) VALUES
  (101, 1, '2025-11-18T09:00:03.000Z', 'change', '<private>CANARY-33</private>Title', NULL, '<private>CANARY-34</private>Narrative. And more <private>CANARY-35</private>', NULL),
  (102, 1, '2025-11-18T09:00:03.000Z', 'change', '<private>CANARY-36</private>', 'Subtitle <private>CANARY-37</private>', NULL, NULL),
  (103, 1, '2025-11-18T09:00:03.000Z', 'change', NULL, NULL, NULL, 'Text <private>CANARY-38'),
  (104, 1, '2025-11-18T09:00:03.000Z', 'change<private>CANARY-39</private>', NULL, NULL, '<private>CANARY-40</private>', NULL);
INSERT INTO session_summaries (id, prompt_number, created_at, request, investigated, learned, completed, next_steps, notes) VALUES
  (201, 1, '2025-11-18T09:30:00.000Z', '<private>CANARY-41</private>', '<private>CANARY-42</private>', '<private>CANARY-43</private>', '<private>CANARY-44</private>', 'Go <private>CANARY-45</private> on', '<private>CANARY-46</private>');
