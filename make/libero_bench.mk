# From demonstrations to tables. Everything that is there already is kept; delete it to make it again.
# The patches want a GPU, above all the paper's preset; the base policies come with the package.
LIBERO_RUNS := runs/libero
LIBERO_SUITES := spatial object goal long
LIBERO_SUP = $(LIBERO_PYTHON) -c "from speedup_patch.cli import main; main()"
LIBERO_TRAIN = $(BIN)/sup train $(LIBERO_RUNS)/$(1).npz --robot panda_libero --chunk 10$(if $(2), $(2)) --out $@
LIBERO_DEMONSTRATIONS_spatial := 260
LIBERO_DEMONSTRATIONS_object := 260
LIBERO_DEMONSTRATIONS_goal := 240
LIBERO_DEMONSTRATIONS_long := 720
LIBERO_CORRECTIONS_goal := $(LIBERO_RUNS)/goal_corrections.npz $(LIBERO_RUNS)/goal_7_corrections.npz
LIBERO_CORRECTIONS_long := $(LIBERO_RUNS)/long_corrections.npz
# The paper's presets, each with its own tolerance (0.015) and with the others that the paper considers.
LIBERO_PAPER_VARIANTS := $(foreach preset,_paper _paper_velocity,$(preset).patch $(preset)_eps0.01.patch $(preset)_eps0.02.patch)
LIBERO_PAPER_PATCHES := $(foreach suite,$(LIBERO_SUITES),$(LIBERO_PAPER_VARIANTS:%=$(LIBERO_RUNS)/$(suite)%))
LIBERO_VARIANTS := .patch _gru.patch _mlp.patch
LIBERO_PATCHES := $(foreach suite,$(LIBERO_SUITES),$(LIBERO_VARIANTS:%=$(LIBERO_RUNS)/$(suite)%))
LIBERO_POLICIES := $(LIBERO_SUITES:%=src/speedup_patch/assets/act_libero_%.onnx)
BENCH_LIBERO ?=

$(LIBERO_SUITES:%=$(LIBERO_RUNS)/%.npz): $(LIBERO_RUNS)/%.npz: | $(LIBERO_READY)
	$(LIBERO_SUP) collect libero/$* --episodes $(LIBERO_DEMONSTRATIONS_$*) --out $@

# $(1): name of the policy, $(2): its suite, $(3): data, $(4): where to write it
define libero_policy
	test -e $(LIBERO_RUNS)/act_$(1) || $(LEROBOT_VENV)/bin/python base_policies/train_act.py \
		--data $(3) --out $(LIBERO_RUNS)/act_$(1) --steps 20000 --chunk 10
	$(LEROBOT_VENV)/bin/python base_policies/export_onnx.py $(LIBERO_RUNS)/act_$(1) --env libero/$(2) --out $(4)
endef

# What an expert does where a first policy, trained on the demonstrations alone, has got to.
LIBERO_CORRECT = $(LIBERO_SUP) collect libero/$(1) --correct onnx:$(LIBERO_RUNS)/$(2)_first.onnx --episodes $(3) --seed 1 --out $@

$(LIBERO_RUNS)/%_first.onnx: | $(LEROBOT_READY) $(LIBERO_RUNS)/%.npz
	$(call libero_policy,$*_first,$*,$(LIBERO_RUNS)/$*.npz,$@)

$(LIBERO_RUNS)/goal_corrections.npz: | $(LIBERO_READY) $(LIBERO_RUNS)/goal_first.onnx
	$(call LIBERO_CORRECT,goal,goal,80)

$(LIBERO_RUNS)/goal_7_corrections.npz: | $(LIBERO_READY) $(LIBERO_RUNS)/goal_first.onnx
	$(call LIBERO_CORRECT,goal/7,goal,60)

$(LIBERO_RUNS)/long_corrections.npz: | $(LIBERO_READY) $(LIBERO_RUNS)/long_first.onnx
	$(call LIBERO_CORRECT,long,long,120)

.SECONDEXPANSION:
$(LIBERO_POLICIES): src/speedup_patch/assets/act_libero_%.onnx: | $(LEROBOT_READY) $(LIBERO_RUNS)/%.npz $$(LIBERO_CORRECTIONS_%)
	$(call libero_policy,$*,$*,$(LIBERO_RUNS)/$*.npz $(LIBERO_CORRECTIONS_$*),$@)

$(LIBERO_SUITES:%=$(LIBERO_RUNS)/%.patch): $(LIBERO_RUNS)/%.patch: | $(READY) $(LIBERO_RUNS)/%.npz
	$(call LIBERO_TRAIN,$*)

$(LIBERO_RUNS)/%_paper.patch: | $(READY) $(LIBERO_RUNS)/%.npz
	$(call LIBERO_TRAIN,$*,--preset libero)

$(LIBERO_RUNS)/%_gru.patch: | $(READY) $(LIBERO_RUNS)/%.npz
	$(call LIBERO_TRAIN,$*,--world-model gru)

$(LIBERO_RUNS)/%_mlp.patch: | $(READY) $(LIBERO_RUNS)/%.npz
	$(call LIBERO_TRAIN,$*,--world-model mlp)

$(LIBERO_RUNS)/%_paper_velocity.patch: | $(READY) $(LIBERO_RUNS)/%.npz
	$(call LIBERO_TRAIN,$*,--preset libero-velocity)

# $(1): tolerance
define libero_paper_tolerance
$(LIBERO_RUNS)/%_paper_eps$(1).patch: | $(READY) $(LIBERO_RUNS)/%.npz
	$$(call LIBERO_TRAIN,$$*,--preset libero --epsilon $(1))

$(LIBERO_RUNS)/%_paper_velocity_eps$(1).patch: | $(READY) $(LIBERO_RUNS)/%.npz
	$$(call LIBERO_TRAIN,$$*,--preset libero-velocity --epsilon $(1))
endef
$(foreach epsilon,0.01 0.02,$(eval $(call libero_paper_tolerance,$(epsilon))))

bench-libero-paper: $(LIBERO_READY) | $(LIBERO_POLICIES) $(LIBERO_PAPER_PATCHES)  ## Make the paper's rows on LIBERO: tolerances on 100 development seeds, then 500 paired seeds per suite
	$(LIBERO_SUP) bench libero --parts tuning paper epsilon $(BENCH_LIBERO)

bench-libero: $(LIBERO_READY) | $(LIBERO_POLICIES) $(LIBERO_PATCHES) $(LIBERO_PAPER_PATCHES)  ## Make the tables of LIBERO again: 100 paired seeds per suite
	$(LIBERO_SUP) bench libero $(BENCH_LIBERO)

bench-libero-ablation: $(LIBERO_READY) | $(LIBERO_SUITES:%=$(LIBERO_RUNS)/%.patch)  ## Measure what each rule of the default is worth on LIBERO: 400 paired seeds per suite
	$(LIBERO_SUP) bench libero --parts ablation --episodes 400 --out benchmarks/results/ablation_libero $(BENCH_LIBERO)

.PHONY: bench-libero bench-libero-paper bench-libero-ablation
