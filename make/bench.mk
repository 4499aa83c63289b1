BENCH := runs/bench
BENCH_ABLATION ?=

# $(1): insertion or transfer. Which seeds are for what: src/speedup_patch/envs/seeds.py.
define aloha_bench
	test -e $(BENCH)/$(1).npz || $(BIN)/sup collect aloha/$(1) --episodes 200 --out $(BENCH)/$(1).npz
	test -e $(BENCH)/$(1).patch || $(BIN)/sup train $(BENCH)/$(1).npz --robot aloha --out $(BENCH)/$(1).patch
	$(BIN)/sup eval aloha/$(1) --policy bundled:aloha/$(1) --episodes 200 --seed 0 --out $(BENCH)/aloha_$(1) --scheduler \
		base fixed:2 fixed:3 fixed:4 dwell+fixed:4 speedcap:$(BENCH)/$(1).patch \
		mpc:$(BENCH)/$(1).patch $(BENCH)/$(1).patch
	mkdir -p benchmarks/results/aloha_$(1)
	cp $(BENCH)/aloha_$(1)/results.json $(BENCH)/aloha_$(1)/table.md benchmarks/results/aloha_$(1)/
endef

# $(1): insertion or transfer, $(2): what is added to the patch's name, $(3): options
define aloha_paper_patch
	test -e $(BENCH)/$(1)_real$(2).patch || $(BIN)/sup train $(BENCH)/$(1).npz --robot aloha --preset real --chunk 24 $(3) \
		--out $(BENCH)/$(1)_real$(2).patch
endef

# The paper's preset for its two-armed robot, with its own tolerance (0.03) and with the others that the paper considers.
define aloha_paper_patches
	test -e $(BENCH)/$(1).npz || $(BIN)/sup collect aloha/$(1) --episodes 200 --out $(BENCH)/$(1).npz
	$(call aloha_paper_patch,$(1))
	$(call aloha_paper_patch,$(1),_eps0.02,--epsilon 0.02)
	$(call aloha_paper_patch,$(1),_eps0.04,--epsilon 0.04)
endef

bench-aloha: $(READY)  ## Make the tables of the README again: 200 paired seeds per task
	$(call aloha_bench,insertion)
	$(call aloha_bench,transfer)

bench-aloha-paper: $(READY)  ## Make the paper's rows on ALOHA: tolerances on 100 development seeds, then 500 paired seeds (the preset wants a GPU)
	$(call aloha_paper_patches,insertion)
	$(call aloha_paper_patches,transfer)
	$(BIN)/sup bench aloha --parts tuning paper --work $(BENCH)

bench-ablation: $(READY)  ## Measure what each rule of the default is worth on ALOHA: 1,000 paired seeds per task; run bench-aloha first
	$(BIN)/sup bench aloha --parts ablation --episodes 1000 --work $(BENCH) --out benchmarks/results/ablation_aloha $(BENCH_ABLATION)

bench-strangers: $(READY)  ## Measure robots that nobody tuned for (docs/strangers.md), and tell `sup check` what came of its figures
	$(BIN)/sup bench strangers --robots 0-15 --seed 50000
	$(BIN)/sup bench strangers --robots 16-31
	$(BIN)/python benchmarks/known_outcomes.py

.PHONY: bench-aloha bench-aloha-paper bench-ablation bench-strangers
