from serve.conftest import patch_folder as patch_folder
