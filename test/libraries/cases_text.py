# SPDX-License-Identifier: Apache-2.0
"""Transformers and what is built on them. Every model is made from a configuration, with random weights."""

import torch
import torch.nn.functional as F
from library_support import Run, batches, case, fit

tokens = lambda count, *shape: lambda: torch.randint(count, shape)


@case("transformers", "`Trainer` on a small Llama with checkpoints, then `generate` and `from_pretrained`")
def transformers(at):
    from sojourn.integrations import accelerate as integration

    if at.owner:
        integration.use(at.owner)
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = transformers.LlamaForCausalLM(config)
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(3, 64, (16, 12))]
    arguments = transformers.TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        num_train_epochs=2,
        learning_rate=0.1,
        optim="sgd",
        lr_scheduler_type="linear",
        logging_steps=1,
        save_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=at.owner is None,
        seed=int(torch.randint(1000, ())),
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    model.eval()
    said = model.generate(rows[0]["input_ids"][None].to(at.device), max_new_tokens=4, do_sample=False)
    model.save_pretrained("saved")
    loaded = transformers.LlamaForCausalLM.from_pretrained("saved", device_map={"": at.device})
    kept = transformers.LlamaForCausalLM.from_pretrained("out/checkpoint-4")  # of the first epoch
    values = {"said": said, "saved": loaded.state_dict(), "checkpoint": kept.state_dict()}
    values["evaluated"] = trainer.evaluate(rows[:4])["eval_loss"]
    return Run(losses, model, values)


def small_bert(**options):
    """A configuration without dropout, whose draws no two devices share. Of weights of the usual 0.02, queries and their
    adapters would get gradients near or below rounding."""
    import transformers

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "initializer_range": 0.3}
    return transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes, **options)


@case("peft", "LoRA on a small BERT: train the adapter, save it, load it, merge it")
def peft(at):
    import peft
    import transformers

    config = small_bert(vocab_size=64, num_hidden_layers=2, num_labels=3)
    base = transformers.BertForSequenceClassification(config)
    base.save_pretrained("base")
    lora = peft.LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "value"], lora_dropout=0.0)
    model = peft.get_peft_model(base, lora)
    data = batches(tokens(64, 4, 10), tokens(3, 4))
    losses = fit(at, model, data, lambda net, x, y: net(input_ids=x, labels=y).loss, lr=0.2)
    model.save_pretrained("adapter")
    again = transformers.BertForSequenceClassification.from_pretrained("base").to(at.device)
    merged = peft.PeftModel.from_pretrained(again, "adapter").merge_and_unload().eval()
    with torch.no_grad():
        scores = merged(input_ids=data[0][0].to(at.device)).logits
    return Run(losses, model, {"scores": scores})


@case(
    "sentence-transformers",
    "`old_fit` over pairs with ranking loss, warm-up and clipping (`fit` needs the package datasets), and `encode`",
    still=("*.key.bias", "*.pooler.*"),
)
def sentence_transformers(at):
    import tokenizers
    import transformers
    from sentence_transformers import InputExample, SentenceTransformer, losses, models, util

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the cat dog bird sat ran flew on mat road tree".split()]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: at for at, word in enumerate(words)}, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    config = small_bert(vocab_size=len(words), num_hidden_layers=1)
    transformers.BertModel(config).save_pretrained("bert")
    fast.save_pretrained("bert")
    bert = models.Transformer("bert", max_seq_length=8)
    model = SentenceTransformer(modules=[bert, models.Pooling(32, "mean")], device=str(at.device))
    loss_of = losses.MultipleNegativesRankingLoss(model)
    left = ["the cat sat on mat", "the dog ran", "bird flew"]
    right = ["the cat sat", "the dog ran on road", "the bird on tree"]
    found = []
    loss_of.register_forward_hook(lambda module, inputs, loss: found.append(loss.detach()))
    model.old_fit(
        [(torch.utils.data.DataLoader([InputExample(texts=pair) for pair in zip(left, right)], batch_size=3), loss_of)],
        epochs=4,
        warmup_steps=1,
        optimizer_class=torch.optim.SGD,
        optimizer_params={"lr": 0.1},
        show_progress_bar=False,
    )
    encoded = model.encode(left, convert_to_tensor=True)
    assert encoded.device == at.device
    return Run(
        found, model, {"encoded": encoded, "arrays": model.encode(right), "alike": util.cos_sim(encoded, encoded)}
    )


@case("x-transformers", "a decoder with rotary positions, RMS norm and gated units, and its `generate`")
def x_transformers(at):
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True, attn_dim_head=8)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=32, max_seq_len=16, attn_layers=layers))
    data = batches(tokens(32, 4, 13))
    losses = fit(at, model, data, lambda net, x: net(x), lr=0.2)
    said = model.generate(data[0][0][:, :3].to(at.device), 4, temperature=0.0)
    return Run(losses, model, {"said": said})


@case("open-clip-torch", "a small CLIP with its contrastive loss")
def open_clip(at):
    import open_clip

    model = open_clip.CLIP(
        embed_dim=16,
        vision_cfg={"layers": 1, "width": 32, "head_width": 8, "patch_size": 8, "image_size": 16},
        text_cfg={"context_length": 8, "vocab_size": 64, "width": 16, "heads": 2, "layers": 1},
    )
    loss_of = open_clip.ClipLoss()
    data = batches(lambda: torch.rand(4, 3, 16, 16), tokens(64, 4, 8))
    return Run(fit(at, model, data, lambda net, x, y: loss_of(*net(x, y)), lr=0.01), model)


@case("rotary-embedding-torch", "attention with rotated queries and keys")
def rotary(at):
    from rotary_embedding_torch import RotaryEmbedding

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rotary, self.project = RotaryEmbedding(8, learned_freq=True), torch.nn.Linear(16, 48)

        def forward(self, x):
            q, k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in self.project(x).chunk(3, -1))
            q, k = self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    model = Attention()
    data = batches(lambda: torch.randn(2, 6, 16))
    return Run(fit(at, model, data, lambda net, x: net(x).square().mean(), lr=0.5), model)
