from hypothesis import settings

settings.register_profile("quick", max_examples=40, deadline=None, report_multiple_bugs=False)
settings.load_profile("quick")
