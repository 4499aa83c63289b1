BENCH := runs/bench
BENCH_ABLATION ?=

# $(1): insertion or transfer. Demonstrations start from seeds >= 100000, development used seeds 50000 to 50999.
define aloha_bench
	test -e $(BENCH)/$(1).npz || $(BIN)/sup collect aloha/$(1) --episodes 200 --out $(BENCH)/$(1).npz
	test -e $(BENCH)/$(1).patch || $(BIN)/sup train $(BENCH)/$(1).npz --robot aloha --out $(BENCH)/$(1).patch
	test -e $(BENCH)/$(1)_paper.patch || $(BIN)/sup train $(BENCH)/$(1).npz --robot aloha --preset bigym --out $(BENCH)/$(1)_paper.patch
	$(BIN)/sup eval aloha/$(1) --policy bundled:aloha/$(1) --episodes 200 --seed 0 --out $(BENCH)/aloha_$(1) --scheduler \
		base fixed:2 fixed:3 fixed:4 dwell+fixed:4 speedcap:$(BENCH)/$(1).patch mpc:$(BENCH)/$(1)_paper.patch \
		$(BENCH)/$(1)_paper.patch mpc:$(BENCH)/$(1).patch $(BENCH)/$(1).patch
	mkdir -p benchmarks/results/aloha_$(1)
	cp $(BENCH)/aloha_$(1)/results.json $(BENCH)/aloha_$(1)/table.md benchmarks/results/aloha_$(1)/
endef

bench-aloha: $(READY)  ## Make the tables of the README again: 200 paired seeds per task (the paper preset wants a GPU)
	$(call aloha_bench,insertion)
	$(call aloha_bench,transfer)

bench-ablation: $(READY)  ## Measure what each rule of the default is worth on ALOHA: 1,000 paired seeds per task; run bench-aloha first
	$(BIN)/sup bench aloha --parts ablation --episodes 1000 --work $(BENCH) --out benchmarks/results/ablation_aloha $(BENCH_ABLATION)

.PHONY: bench-aloha bench-ablation
