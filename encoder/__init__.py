"""The reference encoder: one module a chapter, read in this order.

Letters: B batch, T queries, S keys, H heads, D model width, K head width, F feed-forward width, V vocabulary, L layers,
N real tokens of a batch. A mask is boolean, True = may attend (see `masks`). Names are imported from their module
(`from encoder.heads import MultiHeadAttention`); importing `encoder` itself loads nothing. Below: arguments in their
order, a second pair of brackets for those of a module's `forward`, then shapes.

01 attention
    attention_weights(q, k, mask)                      (…, T, K), (…, S, K) → (…, T, S)
    scaled_dot_product_attention(q, k, v, mask)        → output (…, T, K), weights (…, T, S)
01 packing
    attend(q, k, v, mask, bias, dropout)               (B, H, T, K), (B, H, S, K) twice → (B, H, T, K), fused
    Packing(lengths, size, device)                     .pack: (B, T, D) → (1, N, D), .unpack: back; serves as a mask
02 positions
    rotary_angles(length, width, base, device)         → (T, K / 2)
    sinusoidal_positions(length, d_model, base, device, dtype)  → (T, D)
    LearnedPositions(max_length, d_model, std)(x)      (B, T, D) → (B, T, D)
    relative_buckets(distance, n_buckets, max_distance)  any shape → the same
    RelativeBias(n_heads, n_buckets, max_distance)(length, memory_length)  → (1, H, T, S)
    apply_rope(x, angles)                              (…, T, K), (T, K / 2) → (…, T, K)
03 heads
    split_heads(x, n_heads)                            (B, T, D) → (B, H, T, K)
    merge_heads(x)                                     (B, H, T, K) → (B, T, D)
    MultiHeadAttention(d_model, n_heads, dropout)(x, mask, memory, bias)  (B, T, D) → (B, T, D)
    inspect_heads(attention, x, mask)                  → weights (B, H, T, T), contributions (B, H, T, D)
    diversity_penalty(weights)                         (B, H, T, S) → scalar
    effective_heads(contributions)                     (B, H, T, D) → scalar
04 feedforward
    gelu(x)                                            any shape → the same
    gelu_tanh(x)                                       any shape → the same
    FeedForward(d_model, d_ff, activation)(x)          (…, D) → (…, D)
    ConvFeedForward(d_model, d_ff, activation)(x)      (B, T, D) → (B, T, D)
    SeparableFeedForward(d_model, d_ff, kernel, activation)(x, mask)  (B, T, D) → (B, T, D)
05 layer
    layer_norm(x, weight, bias, eps)                   (…, D) → (…, D)
    LayerNorm(d_model, eps)(x)                         (…, D) → (…, D)
    EncoderLayer(d_model, n_heads, d_ff, norm_first, dropout, activation, eps)(x, mask, bias)  (B, T, D) → (B, T, D)
06 stack
    padding_mask(lengths, size)                        (B,) → (B, 1, 1, S)
    Encoder(n_layers, d_model, n_heads, d_ff, norm_first, dropout, activation, eps)(x, mask, bias, lengths)
    pick_device()                                      → torch.device
    mixed_precision(device, enabled)                   → a context: matrix products in bfloat16
    prepare(model, device, compile)                    → the model on its device, compiled if asked for
06 onednn
    use_onednn(model)                                  → the model, its fp32 products on the CPU by oneDNN, not MKL
06 training
    TrainConfig(steps, lr, warmup, …)
    warmup_cosine(step, steps, warmup, peak, floor)    → the rate of a step
    fit(model, loss_fn, batches, config, checkpoint, on_step)  → the loss of every step
07 masks
    causal_mask(length, device)                        → (T, T)
    window_mask(length, window, device)                → (T, T)
    combine_masks(*masks)                              → what all of them allow
07 palindrome
    make_palindromes(n, pairs, vocab, generator, mismatch)  → tokens (n, 2·pairs + 1), labels (n,)
    PalindromeClassifier(pairs, vocab, n_layers, d_model, n_heads, d_ff, std)(tokens, mask)  (B, T) → (B, 2)
    train_palindrome(model, mask, steps, lr, seed)     → the loss of every step
    palindrome_accuracy(model, mask, n, seed)          → share of right verdicts
    reach(n_layers, window)                            → how far news travels
    sees(model, tokens, mask)                          → whether the centre hears of the last token
08 recurrence
    RNNCell(d_in, d_hidden)(x, h)                      (B, d_in), (B, d_hidden) → (B, d_hidden)
    LSTMCell(d_in, d_hidden)(x, state)                 the same, state = (h, c)
    GRUCell(d_in, d_hidden)(x, h)                      the same
    RecurrentEncoder(cell, backward_cell)(x, lengths)  (B, T, d_in) → (B, T, d_hidden), (B, d_hidden)
    ConvEncoder(n_layers, d_model, kernel_size)(x, lengths)  (B, T, D) → (B, T, D)
    gradient_by_distance(encode, x)                    → (T,)
    path_length(distance, reach)                       → steps between two tokens
09 seq2seq
    DecoderLayer(d_model, n_heads, d_ff, norm_first, dropout, activation, eps)(x, memory, mask, memory_mask)
    Decoder(n_layers, d_model, n_heads, d_ff, norm_first, dropout, activation, eps)(x, memory, mask, memory_mask)
    shift_right(target, bos_id)                        (B, T) → (B, T)
    seq2seq_loss(logits, target, pad_id)               (B, T, V), (B, T) → scalar
    Seq2Seq(config)(source, target_in)                 (B, S), (B, T) → (B, T, V)
    greedy_ids(decode, start, max_length, eos_id, pad_id)  (B, 1) → (B, ≤ max_length)
    greedy_decode(model, source, max_length)           (B, S) → (B, ≤ max_length)
    cross_attention_weights(model, source, target_in, layer)  → (B, H, T, S)
09 translation
    number_pairs(numbers)                              → source (B, S), target (B, T): numbers spelt in two languages
    translate(model, texts)                            → words
10 bert
    BertConfig(vocab_size, d_model, …)                 .base(), .large()
    Embeddings(vocab_size, d_model, max_length, n_segments, dropout, eps)(ids, segments, positions)  (B, T) → (B, T, D)
    Pooler(d_model)(hidden)                            (B, T, D) → (B, D)
    Bert(config)(ids, mask, segments, lengths)         (B, T) → (B, T, D)
    MLMHead(vocab_size, d_model, d_table, activation, eps)(hidden, table)  (B, T, D), (V, D) → (B, T, V)
    NSPHead(d_model)(pooled)                           (B, D) → (B, 2)
    MaskedLM(encoder)(ids, mask, segments)             (B, T) → (B, T, V)
    BertForPretraining(config)(ids, mask, segments)    → MLM (B, T, V), NSP (B, 2)
    parameter_count(model)                             → number of weights
10 pretraining
    mask_tokens(ids, mask_id, vocab_size, special_ids, probability, generator)  (B, T) → masked ids, labels (B, T)
    make_nsp_pairs(documents, generator)               → pairs with their label
    pretraining_loss(mlm_logits, nsp_logits, labels, not_next)  → scalar
11 finetuning
    SequenceClassifier(encoder, n_classes, dropout)(ids, mask, segments)  (B, T) → (B, n_classes)
    TokenClassifier(encoder, n_labels, dropout)(ids, mask, segments)  (B, T) → (B, T, n_labels)
    SpanPredictor(encoder)(ids, mask, segments)        (B, T) → start and end (B, T)
    align_labels(word_ids, labels)                     → a label a piece
    token_loss(logits, labels)                         (B, T, C), (B, T) → scalar
    span_loss(start, end, starts, ends, allowed)       (B, T) twice, (B,) twice → scalar
    best_span(start, end, allowed, max_length)         (B, T) twice → starts (B,), ends (B,)
    summarise(counts)                                  → scores by name, and their averages
    classification_report(actual, predicted, names)    → precision, recall, F1 by class
    entity_report(actual, predicted)                   → the same by type of entity, from BIO tags
12 variants
    roberta_positions(ids, pad_id)                     (B, T) → (B, T)
    Roberta(config)(ids, mask, segments, lengths)      (B, T) → (B, T, D)
    SharedEncoder(n_layers, d_model, n_heads, d_ff, dropout, activation, eps)(x, mask)  (B, T, D) → (B, T, D)
    Albert(config)(ids, mask, segments)                (B, T) → (B, T, D)
    disentangled_scores(q, k, pos_q, pos_k, index)     (B, H, T, K) twice, (1, H, R, K) twice, (T, T) → (B, H, T, T)
    Deberta(config)(ids, mask, segments)               (B, T) → (B, T, D)
    EnhancedMaskDecoder(encoder)(ids, mask, segments)  (B, T) → (B, T, D), for a MaskedLM
13 pretrained
    load_weights(model, state, family)                 a Hugging Face state dict into our model
    load_pretrained(path, masked_lm)                   a folder of config.json and safetensors → our model
    load_minilm()                                      → MiniLM and its tokenizer
    sentence_embedding(hidden, mask)                   (B, T, D), (B, T) → (B, D)
    embed(model, tokenizer, texts, max_length)         → (B, D)
    record(model, *args, …)                            → what each module returned, by name
    first_divergence(ours, reference, tolerance, mask)  → the first recorded tensor that differs
"""

CHAPTERS = {
    "checks": 0,
    "attention": 1,
    "packing": 1,
    "positions": 2,
    "heads": 3,
    "feedforward": 4,
    "layer": 5,
    "stack": 6,
    "onednn": 6,
    "training": 6,
    "masks": 7,
    "palindrome": 7,
    "recurrence": 8,
    "seq2seq": 9,
    "translation": 9,
    "bert": 10,
    "pretraining": 10,
    "finetuning": 11,
    "variants": 12,
    "pretrained": 13,
}
